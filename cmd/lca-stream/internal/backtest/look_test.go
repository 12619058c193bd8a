package backtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// Machines that are read in rounds take turns, each round in any order, even if some readings are missing. Random values do not, nor do fewer than eight, as days of the week.
func TestByTurns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	turns := func(machines int, there float64, shuffled bool) (all []string) {
		order := rng.Perm(machines)
		for len(all) < 3000 {
			if shuffled {
				order[0], order[1] = order[1], order[0]
			}
			for _, one := range order {
				if rng.Float64() < there {
					all = append(all, fmt.Sprint("m", one))
				}
			}
		}
		return all
	}
	rounds := func(machines int) (all []string) {
		for len(all) < 3000 {
			for _, one := range rng.Perm(machines) {
				if rng.Float64() < 0.9 {
					all = append(all, fmt.Sprint("m", one))
				}
			}
		}
		return all
	}
	random := func(values int) (all []string) {
		for range 3000 {
			all = append(all, fmt.Sprint("p", rng.IntN(values)))
		}
		return all
	}
	for name, c := range map[string]struct {
		values []string
		of     int
		want   bool
	}{
		"in turn":               {turns(30, 1, false), 30, true},
		"two change places":     {turns(30, 1, true), 30, true},
		"some are not there":    {turns(30, 0.9, false), 30, true},
		"each round its own":    {rounds(30), 30, true},
		"as few as may be":      {turns(leastTurns, 1, false), leastTurns, true},
		"days of the week":      {turns(7, 1, false), 7, false},
		"one value in another":  {turns(2, 1, false), 2, false},
		"products, at random":   {random(30), 30, false},
		"of a few, at random":   {random(8), 8, false},
		"one after the other":   {append(slices.Repeat([]string{"a"}, 1500), slices.Repeat([]string{"b"}, 1500)...), 2, false},
		"half of it in turn":    {append(turns(30, 1, false)[:1500], random(30)[:1500]...), 30, false},
		"states that last long": {states(rng, 12), 12, false},
	} {
		if got := byTurns(c.of, len(c.values), func(i int) string { return c.values[i] }); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func states(rng *rand.Rand, n int) (all []string) {
	for len(all) < 3000 {
		all = append(all, slices.Repeat([]string{fmt.Sprint("s", rng.IntN(n))}, 1+rng.IntN(100))...)
	}
	return all
}
