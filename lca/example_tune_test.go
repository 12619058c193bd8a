package lca_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// ν and ν_g are chosen by rows that were not fitted, as section 6.2 does: first ν_g by a single Gaussian, then ν.
// Here 60 rows in 12 dimensions are few, and a strong penalty wins.
func ExampleTune() {
	five, _ := toy("five", 400, 10, 5)
	train, fresh := rowsOf(five, 0, 60), rowsOf(five, 60, 400)
	grid := lca.TuneGrid{NuGaussian: []float64{0, 0.1, 0.3}, Nu: []float64{0.01, 0.1, 1}}
	c, tried, err := lca.Tune(context.Background(), train, fresh, lca.DefaultConfig(), grid)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tried {
		fmt.Printf("%-9s ν_g = %-4v ν = %-5v %.1f nats per row\n", t.Kind, t.NuGaussian, shown(t), t.NLL)
	}
	fmt.Printf("chosen: ν_g = %v, ν = %v\n", c.NuGaussian, c.Nu)
	// Output:
	// gaussian  ν_g = 0    ν = –     20.2 nats per row
	// gaussian  ν_g = 0.1  ν = –     19.9 nats per row
	// gaussian  ν_g = 0.3  ν = –     19.8 nats per row
	// lca_gauss ν_g = 0.3  ν = 0.01  23.0 nats per row
	// lca_gauss ν_g = 0.3  ν = 0.1   21.0 nats per row
	// lca_gauss ν_g = 0.3  ν = 1     19.8 nats per row
	// chosen: ν_g = 0.3, ν = 1
}

// shown leaves out a ν that the single Gaussian has no use for.
func shown(t lca.Tuning) any {
	if t.Kind == lca.KindGaussian {
		return "–"
	}
	return t.Nu
}

// A covariance for each row turns with the rings; one for all has no direction to prefer.
func ExampleFitLocal() {
	ring, _ := toy("circles", 300, 0, 2)
	c := lca.LocalConfig{Smoothing: 1, Shared: lca.DefaultConfig()}
	c.Shared.Nu = 1e-3
	m, err := lca.FitLocal(context.Background(), ring, c)
	if err != nil {
		log.Fatal(err)
	}
	least, most := 1., -1.
	for j := range 300 {
		tilt := correlation(m.Covariance(j))
		least, most = min(least, tilt), max(most, tilt)
	}
	fmt.Printf("one covariance for all: correlation %.1f, %.2f nats per row\n", math.Abs(correlation(m.Shared.CL)), m.Shared.Info.NLL)
	fmt.Printf("one for each row: correlations of %.1f … %.1f, %.2f nats per row\n", least, most, m.NLL)
	// Output:
	// one covariance for all: correlation 0.1, 2.26 nats per row
	// one for each row: correlations of -0.5 … 0.5, 2.13 nats per row
}

func correlation(s *mat.SymDense) float64 {
	return s.At(0, 1) / math.Sqrt(s.At(0, 0)*s.At(1, 1))
}
