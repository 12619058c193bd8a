package minibatch

import (
	"slices"
	"testing"
)

func TestColumnsOf(t *testing.T) {
	for _, c := range []struct{ names, want []string }{
		{nil, nil},
		{[]string{"a", "b"}, []string{"a", "b"}},
		{[]string{"v[0]", "v[1]"}, []string{"v"}},
		{[]string{"v[0]"}, []string{"v"}},
		{[]string{"v[0]", "w[1]"}, []string{"v[0]", "w[1]"}},
		{[]string{"v[1]", "v[0]"}, []string{"v[1]", "v[0]"}},
	} {
		if got := ColumnsOf(c.names); !slices.Equal(got, c.want) {
			t.Errorf("columns of %v: %v, want %v", c.names, got, c.want)
		}
	}
}
