package enum

import (
	"slices"
	"strings"
	"testing"
)

type fruit uint8

var fruits = Names[fruit]{2: "apple", 3: "pear"}

func TestOnlyNamedValuesAreValues(t *testing.T) {
	for v := range 256 {
		e := fruit(v)
		named := v == 2 || v == 3
		err := fruits.Check(e, "test: unknown fruit")
		if fruits.Has(e) != named || slices.Contains(fruits, fruits.Of(e)) != named || (err == nil) != named {
			t.Errorf("%d: %q, %v", v, fruits.Of(e), err)
		}
		if err != nil && !strings.HasSuffix(err.Error(), ": want one of apple, pear") {
			t.Errorf("%v does not name the known ones", err)
		}
	}
	if all := fruits.All(); !slices.Equal(all, []fruit{2, 3}) {
		t.Errorf("all are %v", all)
	}
}
