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
	grid := lca.DefaultTuneGrid()
	c, tried, err := lca.Tune(context.Background(), train, fresh, lca.DefaultConfig(), grid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ν_g by a single Gaussian:", len(grid.NuGaussian), "fits")
	fmt.Println("ν by the model, nats per row:")
	for _, t := range tried[len(grid.NuGaussian):] {
		fmt.Printf("%8v  %.1f\n", t.Nu, t.NLL)
	}
	fmt.Printf("chosen: ν_g = %v, ν = %v\n", c.NuGaussian, c.Nu)
	// Output:
	// ν_g by a single Gaussian: 7 fits
	// ν by the model, nats per row:
	//        0  27.4
	//   0.0003  27.3
	//    0.001  27.1
	//    0.003  28.3
	//     0.01  26.7
	//     0.03  23.2
	//      0.1  20.5
	//      0.3  20.3
	//        1  20.1
	// chosen: ν_g = 0.03, ν = 1
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
