package lca_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// Two clusters lie along one of ten directions, and all is mixed. Globally the data is as wide along that
// direction as along any other once it is whitened; LCA-Gauss-Red finds it, and calls the rest Gaussian.
func ExampleFit() {
	two, _ := toy("two", 250, 8, 1)
	x, _, _ := mixed(two, 1)
	c := lca.DefaultConfig()
	c.Kind, c.Preset = lca.KindLCAGaussRed, lca.PresetDensity
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("Parzen %d, Gaussian %d\n", m.Parzen(), m.Gaussian())
	fmt.Printf("local over global variance there: %.1f, elsewhere at least %.1f\n", m.Ratio[0], m.Ratio[m.Parzen()])
	fmt.Printf("nats per row below a single Gaussian: %.1f\n", m.Info.GaussianNLL-m.Info.NLL)
	// Output:
	// Parzen 1, Gaussian 9
	// local over global variance there: 0.1, elsewhere at least 1.9
	// nats per row below a single Gaussian: 0.4
}

// The trace watches EM: the penalised objective falls at each step, and stopping after one step is Manifold
// Parzen Windows.
func ExampleFit_trace() {
	five, _ := toy("five", 400, 0, 2)
	c := lca.DefaultConfig()
	c.Kind, c.Nu, c.NuGaussian = lca.KindLCA, 0, 0
	c.Trace = func(i lca.Iteration) {
		if i.Iter < 3 {
			fmt.Printf("step %d: %.2f nats per row, %.0f effective neighbours\n", i.Iter, i.NLL, i.Effective)
		}
	}
	m, err := lca.Fit(context.Background(), five, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("converged: %.2f\n", m.Info.NLL)
	// Output:
	// step 0: 5.21 nats per row, 250 effective neighbours
	// step 1: 5.06 nats per row, 196 effective neighbours
	// step 2: 4.89 nats per row, 152 effective neighbours
	// converged: 4.31
}

// Five clusters among ten noise dimensions, which PCA whitening makes as important as the other two. In the
// metric that LCA-Gauss-Red learnt, a row's nearest neighbour is of its own cluster more often.
func ExampleModel_Whiten() {
	five, label := toy("five", 300, 10, 3)
	x, _, _ := mixed(five, 3)
	for _, kind := range []lca.Kind{lca.KindGaussian, lca.KindLCAGaussRed} {
		c := lca.DefaultConfig()
		c.Kind, c.Preset, c.Components, c.Tol = kind, lca.PresetDensity, lca.ComponentsParzen, 1e-3
		if kind == lca.KindGaussian {
			c.Components = lca.ComponentsAll // it has no Parzen part; this is global whitening
		}
		m, err := lca.Fit(context.Background(), x, c)
		if err != nil {
			log.Fatal(err)
		}
		var y mat.Dense
		m.Whiten(&y, x)
		fmt.Printf("%s: %.0f %% of the nearest neighbours are of the same cluster\n", kind, 100*nearestAgree(&y, label))
	}
	// Output:
	// gaussian: 79 % of the nearest neighbours are of the same cluster
	// lca_gauss_red: 100 % of the nearest neighbours are of the same cluster
}

// On two rings in noise LCA-Gauss-Red may stop at a poor optimum; Search also starts from the flattest
// directions, and lets rows that were not fitted choose.
func ExampleSearch() {
	rings, _ := toy("circles", 450, 4, 4)
	x, fresh := rowsOf(rings, 0, 300), rowsOf(rings, 300, 450)
	c := lca.DefaultConfig()
	c.Preset, c.Tol = lca.PresetDensity, 1e-4
	m, candidates, err := lca.Search(context.Background(), x, fresh, c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d candidates, the best with %d Parzen dimensions\n", len(candidates), m.Parzen())
	fmt.Printf("better on fresh rows than a single Gaussian by %.1f nats per row\n", gaussianNLL(x, fresh)-m.TestNLL(fresh, x))
	// Output:
	// 5 candidates, the best with 2 Parzen dimensions
	// better on fresh rows than a single Gaussian by 0.6 nats per row
}

// nearestAgree returns the share of rows whose nearest other row has the same label.
func nearestAgree(y *mat.Dense, label []int) float64 {
	n, _ := y.Dims()
	agree := 0
	for i := range n {
		nearest, least := -1, math.Inf(1)
		for j := range n {
			if d := distance(y, i, j); j != i && d < least {
				nearest, least = j, d
			}
		}
		if label[nearest] == label[i] {
			agree++
		}
	}
	return float64(agree) / float64(n)
}

func gaussianNLL(x, fresh *mat.Dense) float64 {
	c := lca.DefaultConfig()
	c.Kind = lca.KindGaussian
	m, err := lca.Fit(context.Background(), x, c)
	if err != nil {
		log.Fatal(err)
	}
	return m.TestNLL(fresh, x)
}
