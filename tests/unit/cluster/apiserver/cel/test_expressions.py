"""What expressions are worth: a table over the language and the library, and the CEL library itself as the oracle."""

from typing import Any

import pytest
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st

from muster.cluster.apiserver.cel import CelError, CompileError, CostLimitError, compile_condition
from muster.cluster.apiserver.cel.values import Duration, Timestamp, UInt

SELF: dict[str, Any] = {
    "a": [1, 2, 3],
    "s": "five",
    "m": {"x": "y"},
    "pods": [{"name": "p", "cpu": "500m"}, {"name": "q", "cpu": "2"}],
    "t": "2026-01-02T03:04:05Z",
    "none": None,
    "yes": True,
}


def value(expression: str, self: Any = SELF) -> Any:
    return compile_condition(expression, ["self"])({"self": self})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Numbers
        ("7 / 2", 3), ("-7 / 2", -3), ("-7 % 2", -1), ("7u / 2u", UInt(3)), ("1.0 / 0.0 > 1.0", True),
        ("-9223372036854775808", -(2**63)), ("1 == dyn(1.0) && dyn(1u) == 1", True), ("1 < 1.5 && 2u > 1", True),
        ("int('-12') + int(3.9) + int(4u)", -5), ("double('1.5') + double(1)", 2.5), ("uint(3)", UInt(3)),
        ("int('+12')", 12), ("double('-Inf') < double('1e308')", True), ("double('1e999')", None),
        ("double(' 1')", None), ("double('1_0')", None), ("bool('T') && !bool('F')", True), ("bool('tRUE')", None),
        ("1 <= 1 && 2 >= 1 && 'a' < 'b' && b'a' < b'b' && false < true", True),
        # Logic: an error counts only if nothing else decides
        ("1 / 0 == 1 || true", True), ("false && 1 / 0 == 1", False), ("1 / 0 == 1 && false", False),
        ("self.a.exists(x, 1 / (x - 1) == 1)", True), ("self.a.all(x, 1 / (x - 1) == 1)", False),
        ("self.yes ? 'a' : 'b'", "a"),
        # Containers
        ("true in {true: 1} && !(false in {true: 1}) && !(dyn(1) in {true: 1})", True),
        ("dyn(1u) in {1: 2} && dyn(1.0) in {1: 2} && !(dyn(true) in {1: 2})", True),
        ("{true: 'a'}[true] + {1: 'b'}[dyn(1u)] + {'c': 'c'}['c']", "abc"),
        ("self.a[1] + self.a[dyn(2.0)]", 5), ("2 in self.a && !(7 in self.a)", True), ("'x' in self.m", True),
        ("self.m['x'] + self.m.x", "yy"), ("has(self.m.x) && !has(self.m.z)", True), ("[1] + [2]", [1, 2]),
        ("size(self.a) + self.m.size() + size('é')", 5), ("{'a': 1}['a']", 1), ("self.none == null", True),
        ("dyn([1, 2]) == [1.0, 2.0]", True), ("dyn([true]) == [1]", False), ("dyn({'a': 1}) == {'a': true}", False),
        # Macros
        ("self.a.filter(x, x > 1).map(x, x * 2)", [4, 6]), ("self.a.map(x, x > 1, x + 1)", [3, 4]),
        ("self.a.exists_one(x, x > 2)", True), ("self.m.all(k, k == 'x')", True), ("[].all(x, false)", True),
        ("self.pods.filter(p, p.name == 'q')[0].cpu", "2"), ("self.a.all(i, v, v == i + 1)", True),
        ("self.m.exists(k, v, v == 'y')", True), ("self.a.transformList(i, v, i * v)", [0, 2, 6]),
        ("self.m.transformMap(k, v, v + k)", {"x": "yx"}), ("cel.bind(n, self.a[2], n * n)", 9),
        # Optionals
        ("self.?none.hasValue()", True), ("self.?gone.?deeper.orValue('-')", "-"), ("self.a[?9].hasValue()", False),
        ("self.?a[?0].optMap(x, x + 1).value()", 2), ("[1, ?self.?gone]", [1]),
        ("{?'a': self.?gone, 'b': 1}", {"b": 1}),
        ("optional.of(1).or(optional.none()).value()", 1), ("optional.ofNonZeroValue('').hasValue()", False),
        ("self.a.first().value() + self.a.last().value()", 4),
        # Strings
        ("'tacocat'.charAt(2)", "c"), ("'a-b-a'.indexOf('a', 1)", 4), ("'abab'.lastIndexOf('ab')", 2),
        ("'A b'.lowerAscii() + 'é'.upperAscii()", "a bé"), ("'aaa'.replace('a', 'b', 2)", "bba"),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]), ("'héllo'.substring(1, 3)", "él"), ("' \\t a '.trim()", "a"),
        ("['a', 'b'].join('-')", "a-b"), ("'abc'.reverse()", "cba"), ("strings.quote('a\"\\n')", '"a\\"\\n"'),
        ("'%s|%d|%.2f|%x|%b|%o|%e|%s'.format(['a', 1, 1.5, 255, 5, 8, 1500.0, [1, true]])",
         "a|1|1.50|ff|101|10|1.500000e+03|[1, true]"),
        ("self.s.startsWith('fi') && self.s.endsWith('ve') && self.s.contains('iv')", True),
        ("'b6a0'.matches('^[a-f0-9]+$') && 'xay'.matches('a')", True), ("'a1b22'.find('[0-9]+')", "1"),
        ("'a1b22c3'.findAll('[0-9]+', 2)", ["1", "22"]), ("'abc'.find('z')", ""),
        ("string(1.5) + string(true) + string(b'x') + string(2u)", "1.5truex2"),
        ("string(1000000.0)", "1e+06"), ("string(999999.0)", "999999"), ("string(1234567.5)", "1.2345675e+06"),
        ("string(0.0001)", "0.0001"), ("string(0.00001)", "1e-05"), ("string(-0.0)", "-0"), ("string(1e100)", "1e+100"),
        # Lists
        ("[3, 1, 2].min() + [3, 1, 2].max() + [1, 2].sum()", 7), ("[1.0, 0.5].sum()", 1.5), ("[].sum()", 0),
        ("[1, 2, 2].isSorted() && !['b', 'a'].isSorted()", True), ("[1, 2, 1].lastIndexOf(1)", 2),
        ("[duration('1s'), duration('2s')].sum()", Duration(3 * 10**9)), ("[1, 2].indexOf(5)", -1),
        ("sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])", True),
        ("[[1], [[2]]].flatten()", [1, [2]]), ("[1, 2, 3].slice(1, 3)", [2, 3]), ("[1, 1, 2].distinct()", [1, 2]),
        ("[2, 1].sort() + [1, 2].reverse()", [1, 2, 2, 1]),
        # Times
        ("timestamp('1970-01-01T00:00:01.5Z')", Timestamp(15 * 10**8)), ("duration('1h30m').getMinutes()", 90),
        ("timestamp(self.t).getFullYear() + timestamp(self.t).getMonth()", 2026),
        ("timestamp(self.t).getHours('Asia/Tokyo') - timestamp(self.t).getHours('-02:00')", 11),
        ("timestamp(self.t).getDayOfWeek()", 5),
        ("string(timestamp(self.t) + duration('24h'))", "2026-01-03T03:04:05Z"),
        ("timestamp(self.t) - timestamp('2026-01-02T00:00:00+01:00')", Duration((4 * 3600 + 245) * 10**9)),
        ("string(duration('1.5s'))", "1.5s"), ("int(timestamp('1970-01-01T00:01:00Z'))", 60),
        # Types
        ("type(1) == int && type(self.s) == string && type([]) == list", True), ("type(self.m) == map", True),
        # Kubernetes
        ("quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1k') == quantity('1000')", True),
        ("quantity(self.pods[0].cpu).add(quantity('1500m')).sub(1).asInteger()", 1), ("isQuantity('1.5Ki')", True),
        ("quantity('500m').isInteger() || isQuantity('x') || quantity('-1').sign() == 1", False),
        ("quantity('1').compareTo(quantity('2')) + int(quantity('50k').asApproximateFloat())", 49999),
        ("url('https://a.io:8443/p/q?k=v&k=w').getQuery()", {"k": ["v", "w"]}), ("isURL('a.io')", False),
        ("url('https://[::1]:80/a b').getHostname() + url('https://a.io:8443/').getPort()", None),
        ("url('https://a.io:80/x').getScheme() + url('https://a.io:80/x').getHost()", "httpsa.io:80"),
        ("url('https://[::1]:80/').getHostname() + url('/only/path').getEscapedPath()", "::1/only/path"),
        ("url('https://a.io/a%2Fb!(c)?q').getEscapedPath() + url('/a\"b%41').getEscapedPath()", "/a%2Fb!(c)/a%22bA"),
        ("isURL('/a%2f') && !isURL('/a%2') && !isURL('/a%zz')", True),
        ("ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && isIP('1.2.3.4') && !isIP('1.2.3.04')", True),
        ("ip.isCanonical('::1') && !ip.isCanonical('0::1') && ip('8.8.8.8').isGlobalUnicast()", True),
        ("cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8", True),
        ("cidr('10.0.0.0/8').containsIP('10.9.9.9') && !cidr('10.0.0.0/8').containsCIDR('0.0.0.0/0')", True),
        ("string(cidr('10.0.0.0/8')) + string(cidr('10.0.0.1/8').ip())", "10.0.0.0/810.0.0.1"),
        ("semver('1.2.3-rc.1').isLessThan(semver('1.2.3')) && semver('1.10.0').isGreaterThan(semver('1.9.0'))", True),
        ("semver('v1.2', true).minor() + semver('1.2.3').compareTo(semver('1.2.3'))", 2), ("isSemver('01.2.3')", False),
        ("format.dns1123Label().validate('ok').hasValue()", False),
        ("format.named('uuid').value().validate('x').value()", ["does not match the UUID format"]),
    ],
)  # fmt: skip
def test_value(expression: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(CelError):
            value(expression)
        return
    got = value(expression)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("expression", "failure"),
    [
        ("self.gone", "no such key: gone"),
        ("self.m['gone']", "no such key: gone"),
        ("{1: 'a'}[dyn(2)]", "no such key: 2"),
        ("{1: 'a'}[dyn(true)]", "no such key: True"),
        ("self.a[3]", "index out of bounds: 3"),
        ("self.a[-1]", "index out of bounds: -1"),
        ("self.a[dyn(0.5)]", "no such overload: _[_](list, double)"),
        ("self.a[dyn(1.0 / 0.0)]", "no such overload: _[_](list, double)"),
        ("self.a[dyn(double('NaN'))]", "no such overload: _[_](list, double)"),
        ("1 / (self.a[0] - 1)", "division by zero"),
        ("1 % (self.a[0] - 1)", "modulus by zero"),
        ("9223372036854775807 + self.a[0]", "integer overflow"),
        ("uint(self.a[0] - 2)", "unsigned integer overflow"),
        ("self.s + 1", "no such overload: _+_(string, int)"),
        ("self.s < 1", "no such overload: _<_(string, int)"),
        ("!self.s", "no such overload: !_(string)"),
        ("self.s.x", "no such overload: select of x on string"),
        ("has(self.s.x)", "no such overload: has(x) on string"),
        ("self.a.all(x, self.s)", "no such overload: _&&_(string)"),
        ("self.s.all(x, true)", "no such overload: a string cannot be the range of a comprehension"),
        ("self.s.matches('(')", "error parsing regexp: pattern '(': missing ): ("),
        ("quantity('x')", "quantities must match the regular expression"),
        ("[].min()", "min called on empty list"),
        ("'%d'.format(['x'])", "error during formatting: %d does not take a string"),
        ("'%d'.format([])", "index 0 out of range"),
        ("int('x')", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("timestamp('yesterday')", "invalid timestamp: yesterday"),
        ("timestamp(253402300799) + duration('1s')", "timestamp overflow"),
        ("optional.none().value()", "optional.none() dereference"),
    ],
)
def test_failure(expression: str, failure: str) -> None:
    with pytest.raises(CelError) as raised:
        value(expression)
    assert str(raised.value).startswith(failure)


@pytest.mark.parametrize(
    ("expression", "place", "complaint"),
    [
        ("self.", "1:6", "Syntax error"),
        ("1 +\n 2 + +", "2:6", "Syntax error"),
        ("other.a", "1:6", "undeclared reference to 'other.a'"),
        ("'a' + 1", "1:5", "found no matching overload for '_+_' applied to '(string, int)'"),
        ("quantity(1)", "1:9", "found no matching overload for 'quantity' applied to '(int)'"),
        ("has(self)", "1:5", "has() argument must be a field selection"),
    ],
)
def test_unsound_expressions_are_refused_with_the_place(expression: str, place: str, complaint: str) -> None:
    with pytest.raises(CompileError) as raised:
        value(expression)
    assert str(raised.value).startswith(f"ERROR: <input>:{place}: {complaint}")


@pytest.mark.parametrize(
    "expression",
    ["(" * 5000 + "1" + ")" * 5000, "!" * 99_999 + "true", "self" + ".a" * 5000, "[" * 500 + "]" * 500, "1" * 200_000,
     "'\ud800'", "google.protobuf.Struct{}", "\0"],
)  # fmt: skip
def test_hostile_texts_are_refused(expression: str) -> None:
    with pytest.raises(CompileError):
        value(expression)


# A list of two lists of two lists ..., all one and the same.
SHARED = "[1]" + ".map(x, [x, x])" * 26


@pytest.mark.parametrize(
    ("expression", "given_"),
    [
        ("self.all(a, self.all(b, self.all(c, true)))", list(range(1000))),
        ("self.replace('', 'a' + self).replace('', 'aaaaaaaaaa').replace('', self).size()", "a" * 1000),
        ("self.map(x, self + self).size()", list(range(3000))),
        ("self.map(x, self.join('')).size()", ["a" * 100] * 5000),
        ("self.all(x, x in self)", list(range(90_000))),
        ("self.all(x, [self] == [self])", [{"a": ["x"] * 1000}] * 1000),
        ("self.map(x, self.map(y, {'a': [1, 2, 3, 4]})).size()", list(range(1000))),
        ("sets.contains(self, self)", list(range(5000))),
        ("'%s'.format([self.map(x, self[0])]) == ''", ["a" * 100_000] * 1000),
        ("self.map(x, '%s').join('').format(self) == ''", ["a" * 100_000] * 1000),
        (f"{SHARED} == {SHARED}", None),
        (f"{SHARED} in [{SHARED}]", None),
        (f"[{SHARED}].exists(x, x == {SHARED})", None),
        (f"sets.contains({SHARED}, {SHARED})", None),
        (f"{SHARED}.indexOf({SHARED}) == 1", None),
        (f"{SHARED}.flatten(25) == [1]", None),
        (f"'%s'.format({SHARED}) == ''", None),
        ("self.all(x, self.all(y, !'aaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a+)+$' + string(x))))", list(range(900))),
    ],
)  # fmt: skip
def test_cost_is_limited(expression: str, given_: Any) -> None:
    with pytest.raises(CostLimitError):
        value(expression, given_)


def test_variables_that_are_not_given_are_null() -> None:
    assert compile_condition("oldObject == null && object.kind == 'Pod'", ["object", "oldObject"])(
        {"object": {"kind": "Pod"}}
    )


# Expressions for the oracle: each over the variables `i`, `j` (int), `s` (string), `l` (list of ints), `d` (anything).
ORACLE = [
    "i + j", "i - j", "i * j", "i / j", "i % j", "-i", "i < j", "i == d", "d < i", "d + i", "s + s", "s < d",
    "i in l", "d in l", "l[i]", "l == d", "size(l) + size(s)", "l.all(x, i / x < j)", "l.exists(x, x / i == j)",
    "l.exists_one(x, x % 2 == i)", "l.filter(x, x > i)", "l.map(x, x * j)", "l.map(x, x / j)", "i / j == 1 || i < j",
    "i / j == 1 && i < j", "i > j ? s : string(i)", "string(d)", "int(s)", "double(d)", "l + [i]",
    "s.contains(string(j))",
    "has(d.a) && d.a == i", "d.a", "d['a']", "type(d) == type(i)", "s.startsWith('a') || s.matches('^[0-9]+$')",
    "{s: i}[s] == i", "d == {'a': i}", "uint(i) + 1u", "d ? 1 : 2", "!d", "d && i < j", "i < j || d", "duration(s)",
    "[i, j, d]", "l.all(x, d)", "bool(s)",
]  # fmt: skip
_TYPES = {
    "i": cel.Type.INT,
    "j": cel.Type.INT,
    "s": cel.Type.STRING,
    "l": cel.Type.List(cel.Type.INT),
    "d": cel.Type.DYN,
}
_ORACLE = cel.NewEnv(variables=_TYPES)
_OURS = {text: compile_condition(text, list(_TYPES)) for text in ORACLE}

numbers = st.one_of(st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))
texts = st.sampled_from(["", "a", "12", "-7", "true", "1h", "é"])
anything = st.one_of(
    numbers, texts, st.booleans(), st.none(), st.sampled_from([1.0, 2.5]), st.lists(numbers, max_size=2),
    st.dictionaries(st.sampled_from(["a", "b"]), numbers, max_size=2),
)  # fmt: skip


@given(st.sampled_from(ORACLE), numbers, numbers, texts, st.lists(numbers, max_size=3), anything)
def test_values_are_those_of_the_cel_library(text: str, i: int, j: int, s: str, l: list[int], d: Any) -> None:  # noqa: E741
    variables = {"i": i, "j": j, "s": s, "l": l, "d": d}
    oracle = _ORACLE.compile(text).eval(data=variables)
    failed = oracle.type() == cel.Type.ERROR
    try:
        ours = _OURS[text](variables)
    except CelError:
        assert failed, f"{oracle.value()}"
        return
    assert not failed, f"{ours} but {oracle.value()}"
    expected = oracle.plain_value()
    assert (ours.nanos if isinstance(ours, Duration) else ours) == (
        int(expected.total_seconds() * 10**9) if isinstance(ours, Duration) else expected
    )


@pytest.mark.parametrize("expression", ["self == other", "'%s'.format([self]) == ''", "self.all(k, self == other)"])
def test_values_nested_too_deeply(expression: str) -> None:
    self: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for _ in range(5000):
        self, other = {"a": self}, {"a": other}
    with pytest.raises(CelError, match="nested too deeply"):
        compile_condition(expression, ["self", "other"])({"self": self, "other": other})
