from pathlib import Path

from tools.gofacts import read_package

SOURCE = """
// +enum
type Color string

const (
	Red  Color = "Red"
	Blue Color = "Blue"
)

type Widget struct {
	metav1.TypeMeta `json:",inline"`
	// Size of it.
	// +default=3
	Size *int32 `json:"size,omitempty" protobuf:"varint,4,opt,name=size"`
	// +default=ref(Blue)
	Color Color `json:"color" protobuf:"bytes,1,opt,name=color,casttype=Color"`
	Source `json:",inline" protobuf:"bytes,2,opt,name=source"`
	Spec Spec `json:"spec,omitzero" protobuf:"bytes,5,opt,name=spec"`
}

type Empty struct {
}
"""


def test_facts_of_a_package(tmp_path: Path) -> None:
    (tmp_path / "types.go").write_text(SOURCE)
    assert read_package(tmp_path, "example.v1") == {
        "example.v1.Widget": {
            "fields": "color! *Source 4:size? spec?",
            "enum": {"color": ["Blue", "Red"]},
            "default": {"size": 3, "color": "Blue"},
        },
        "example.v1.Empty": {"fields": ""},
    }
