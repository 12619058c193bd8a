package source

import (
	"testing"
	"time"
)

// Whatever the link, the pace comes to answers that are neither late nor small, and stays there.
func TestPace(t *testing.T) {
	const want = 2 << 20
	for _, c := range []struct {
		name        string
		rate        float64 // bytes per second
		least, most int
	}{
		{"a quick link", 1e9, want, want},
		{"a slow one", 100e3, leastPace, 512 << 10},
		{"hardly one", 1e3, leastPace, leastPace},
	} {
		p, asked := pace{}, 0
		for range 50 {
			asked = p.limit(want)
			p.took(time.Duration(float64(asked)/c.rate*float64(time.Second)), asked)
		}
		if asked < c.least || asked > c.most {
			t.Errorf("%s: asks for %d bytes, want %d to %d", c.name, asked, c.least, c.most)
		}
	}
	p := pace{}
	before := p.limit(want)
	p.took(time.Minute, 100)
	if p.limit(want) != before {
		t.Error("an answer with little in it changes the pace")
	}
}
