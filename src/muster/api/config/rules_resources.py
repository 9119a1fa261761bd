"""The rules of the resources that count in quotas: their transformations, and the mappings of device classes."""

import re
from typing import Final

from muster.api.config.features import FeatureGates
from muster.api.config.types import (
    Configuration,
    DeviceClassMapping,
    DeviceClassSource,
    DeviceClassSources,
    Resources,
)
from muster.api.validation import names
from muster.api.validation.fields import Errors, duplicate, invalid, make_errors, required, too_long, too_many
from muster.api.values.quantity import QuantityError, parse

_MAPPINGS: Final = "resources.deviceClassMappings"
_MAX_MAPPINGS: Final = 16
_MAX_CLASSES: Final = 8
_MAX_NAME: Final = 253
_MAX_DRIVER: Final = 63  # characters of a driver, and of the domain of a capacity
_MAX_IDENTIFIER: Final = 32
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONE_SOURCE: Final = "exactly one source type must be set per entry"


def validate_resources(configuration: Configuration) -> Errors:
    """Yield the errors in `resources`."""
    resources = configuration.resources
    yield from _validate_transformations(resources)
    yield from _validate_mappings(resources.device_class_mappings, configuration.features)
    if resources.exclude_resource_prefixes and resources.quota_check_strategy == "IgnoreUndeclared":
        sentence = "excludeResourcePrefixes is not allowed when quotaCheckStrategy is IgnoreUndeclared"
        yield invalid("resources.quotaCheckStrategy", resources.quota_check_strategy, sentence)


def _validate_transformations(resources: Resources) -> Errors:
    seen = set()
    for i, transformation in enumerate(resources.transformations):
        path = f"resources.transformations[{i}]"
        if transformation.input in seen:
            yield duplicate(f"{path}.input", transformation.input)
        seen.add(transformation.input)
        for resource, quantity in transformation.outputs.items():
            try:
                parse(quantity)
            except QuantityError as error:
                yield invalid(f"{path}.outputs[{resource}]", quantity, str(error))


def _validate_mappings(mappings: tuple[DeviceClassMapping, ...], features: FeatureGates) -> Errors:
    if len(mappings) > _MAX_MAPPINGS:
        yield too_many(_MAPPINGS, len(mappings), _MAX_MAPPINGS)
    seen = set()
    owners: dict[str, _Owner] = {}
    for i, mapping in enumerate(mappings):
        path = f"{_MAPPINGS}[{i}]"
        yield from _validate_name(f"{path}.name", mapping.name)
        if mapping.name in seen:
            yield duplicate(f"{path}.name", mapping.name)
        seen.add(mapping.name)
        yield from _validate_classes(f"{path}.deviceClassNames", mapping, owners)
        yield from _validate_sources(f"{path}.sources", mapping.sources, features)


def _validate_name(path: str, name: str) -> Errors:
    if sentences := names.label_key(name):
        yield invalid(path, name, "; ".join(sentences))
    if len(name) > _MAX_NAME:
        yield invalid(path, name, f"must not exceed {_MAX_NAME} characters")


class _Owner:
    """The resource as which a device class counts, and the counters that the class counts of its devices."""

    def __init__(self, resource: str, counter: str) -> None:
        self.resource = resource
        self.counters = {counter} if counter else set()

    def refusal(self, resource: str, counter: str) -> str:
        """Return why the device class may not also count as another resource; "" if it may.

        A class may count as two resources if they count different counters of the devices.
        """
        if resource == self.resource:
            return ""
        if not counter or not self.counters:
            return f"device class already mapped to resource {self.resource}"
        if counter in self.counters:
            return f'device class already has a counter source for counter "{counter}"'
        self.counters.add(counter)
        return ""


def _validate_classes(path: str, mapping: DeviceClassMapping, owners: dict[str, _Owner]) -> Errors:
    classes = mapping.device_class_names
    if not classes:
        yield required(path, "at least one device class name is required")
    if len(classes) > _MAX_CLASSES:
        yield too_many(path, len(classes), _MAX_CLASSES)
    first = mapping.sources[0].counter if mapping.sources else None
    counter = first.name if first else ""
    seen = set()
    for i, name in enumerate(classes):
        yield from _validate_name(f"{path}[{i}]", name)
        if name in seen:
            yield duplicate(f"{path}[{i}]", name)
        seen.add(name)
        owner = owners.get(name)
        if owner is None:
            owners[name] = _Owner(mapping.name, counter)
        elif sentence := owner.refusal(mapping.name, counter):
            yield invalid(f"{path}[{i}]", name, sentence)


def _validate_sources(path: str, sources: tuple[DeviceClassSources, ...], features: FeatureGates) -> Errors:
    for i, source in enumerate(sources):
        inside = f"{path}[{i}]"
        if source.counter is None and source.capacity is None:
            yield required(inside, _ONE_SOURCE)
        elif source.counter is not None and source.capacity is not None:
            yield invalid(inside, "counter+capacity", _ONE_SOURCE)
        elif source.counter is not None:
            yield from _validate_counter(f"{inside}.counter", source.counter, features)
        elif source.capacity is not None:
            yield from _validate_capacity(f"{inside}.capacity", source.capacity, features)
    one_of_each = [source for source in sources if (source.counter is None) != (source.capacity is None)]
    if len({source.counter is None for source in one_of_each}) > 1:
        yield invalid(path, len(sources), "cannot mix counter and capacity sources in the same mapping")


def _validate_counter(path: str, source: DeviceClassSource, features: FeatureGates) -> Errors:
    gate = "KueueDRAIntegrationPartitionableDevices"
    if not features.is_enabled(gate):
        yield invalid(path, value=True, detail=f"counter sources require {gate} to be enabled")
        return
    if not source.name:
        yield required(f"{path}.name")
    elif sentences := names.dns_label(source.name):
        yield invalid(f"{path}.name", source.name, ",".join(sentences))
    yield from _validate_devices(path, source)


def _validate_capacity(path: str, source: DeviceClassSource, features: FeatureGates) -> Errors:
    gate = "KueueDRAIntegrationConsumableCapacity"
    if not features.is_enabled(gate):
        yield invalid(path, value=True, detail=f"capacity sources require {gate} to be enabled")
        return
    yield from _validate_qualified_name(f"{path}.name", source.name)
    yield from _validate_devices(path, source)


def _validate_devices(path: str, source: DeviceClassSource) -> Errors:
    driver = source.driver
    if not driver:
        yield required(f"{path}.driver")
    elif len(driver) > _MAX_DRIVER:
        yield invalid(f"{path}.driver", driver, f"must not exceed {_MAX_DRIVER} characters")
    elif sentences := names.dns_subdomain(driver):
        yield invalid(f"{path}.driver", driver, ",".join(sentences))
    if source.device_selector.cel is None or not source.device_selector.cel.expression:
        yield required(f"{path}.deviceSelector.cel.expression")


def _validate_qualified_name(path: str, name: str) -> Errors:
    """Check an identifier with an optional domain."""
    domain, slash, identifier = name.rpartition("/")
    if slash and not domain:
        yield invalid(path, "", "the domain must not be empty")
    elif slash:
        if len(domain) > _MAX_DRIVER:
            yield too_long(path, _MAX_DRIVER)
        yield from make_errors(path, domain, names.dns_subdomain(domain.lower()))
    if slash and not identifier:
        yield invalid(path, "", "the name must not be empty")
        return
    if len(identifier) > _MAX_IDENTIFIER:
        yield too_long(path, _MAX_IDENTIFIER)
    if not _IDENTIFIER.fullmatch(identifier):
        sentence = (
            "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
            "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
            "'[A-Za-z_][A-Za-z0-9_]*')"
        )
        yield invalid(path, identifier, sentence)
