package typo

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"source", "snapshot", "transform", "plant.sensors", "presure_bar", "init", "lint"}
	for _, c := range []struct{ text, want string }{
		{"sorce", "source"},
		{"SOURCE", "source"},
		{"sourec", "source"}, // two neighbours swapped are one mistake
		{"plant.sensor", "plant.sensors"},
		{"pressure_bar", "presure_bar"},
		{"lnit", "lint"}, // not init
		{"", ""},
		{"x", ""}, // a letter is near to nothing
		{"kafka", ""},
	} {
		if got := Nearest(c.text, names); got != c.want {
			t.Errorf("Nearest(%q) = %q, want %q", c.text, got, c.want)
		}
	}
	if got := Question("kafka", names); got != "" {
		t.Errorf("a question about %q, which is near to nothing", got)
	}
}

func TestSort(t *testing.T) {
	got := Sort("temp_outlt", []string{"flow", "temp_in", "temp_outlet", "level"})
	if want := []string{"temp_outlet", "temp_in"}; !slices.Equal(got[:2], want) {
		t.Errorf("sorted %q, want %q first", got, want)
	}
}
