package toy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/internal/clustering"
)

// Two circles inside one another: k-means on the plane cannot part them, the graph can.
func TestSpectralPartsCirclesThatKMeansCannot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, labels := make([]float64, 2*400), make([]int, 400)
	for i := range labels {
		x[2*i], x[2*i+1], labels[i] = circles(rng)
	}
	got := clustering.Spectral(x, 2, 2, rng)
	if ari := clustering.AdjustedRand(got, labels); ari < 0.99 {
		t.Errorf("spectral ARI = %.3f, want 1 on clean circles", ari)
	}
	if ari := clustering.AdjustedRand(clustering.KMeans(x, 2, 2, rng), labels); ari > 0.5 {
		t.Errorf("k-means ARI = %.3f: the case does not tell the two apart", ari)
	}
}

func TestStreamsRepeatBySeed(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			var last []float64
			for range 2 {
				s, err := Open(name, 7)
				if err != nil {
					t.Fatal(err)
				}
				x, labels := make([]float64, 50*s.Dim), make([]int, 50)
				s.Next(x, labels)
				if last != nil {
					for i := range x {
						if x[i] != last[i] {
							t.Fatalf("value %d differs between two runs with one seed", i)
						}
					}
				}
				last = x
				for _, l := range labels {
					if l < 0 || l >= s.Clusters {
						t.Fatalf("label %d outside 0…%d", l, s.Clusters-1)
					}
				}
			}
		})
	}
	if _, err := Open("six", 1); err == nil {
		t.Error("an unknown data set was opened")
	}
}

func TestWhitenGivesUnitCovariance(t *testing.T) {
	s, err := Open("five", 3)
	if err != nil {
		t.Fatal(err)
	}
	n := 2000
	x := make([]float64, n*s.Dim)
	s.Next(x, make([]int, n))
	y, err := clustering.Whiten(x, s.Dim)
	if err != nil {
		t.Fatal(err)
	}
	for a := range s.Dim {
		for b := range s.Dim {
			c := 0.0
			for i := range n {
				c += y[i*s.Dim+a] * y[i*s.Dim+b] / float64(n)
			}
			want := 0.0
			if a == b {
				want = 1
			}
			if math.Abs(c-want) > 1e-9 { // exact up to rounding: C is the sample's own
				t.Fatalf("covariance (%d,%d) = %v, want %v", a, b, c, want)
			}
		}
	}
}
