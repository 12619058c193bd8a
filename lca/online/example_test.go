package online_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// A stream of two clusters that lie apart along the first of six columns; the other five are five times as wide, and
// noise. The learner takes it a minibatch at a time. Its model finds the one direction that has structure, and
// whitens rows so that distances count there.
func ExampleLearner() {
	r := rand.New(rand.NewPCG(1, 2))
	minibatch := func(rows int) (x *mat.Dense, cluster []int) {
		x, cluster = mat.NewDense(rows, 6, nil), make([]int, rows)
		for i := range rows {
			cluster[i] = r.IntN(2)
			for k := range 6 {
				x.Set(i, k, 5*r.NormFloat64())
			}
			x.Set(i, 0, 6*float64(cluster[i])-3+r.NormFloat64())
		}
		return x, cluster
	}

	c := online.DefaultConfig(6)
	c.Kind = lca.KindLCAGaussRed
	l, err := online.NewLearner(c)
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	for range 50 {
		x, _ := minibatch(100)
		if _, err := l.Learn(x, nil, nil); err != nil { // nil: no row comes twice
			log.Fatal(err)
		}
	}
	m, err := l.Model()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("learnt %d rows: Parzen %d, Gaussian %d\n", m.Info.Learnt, m.Parzen(), m.Gaussian())

	x, cluster := minibatch(200)
	var y mat.Dense
	m.Whiten(&y, x)
	fmt.Printf("squared distances between clusters over those within: %.1f, whitened %.1f\n", ratio(x, cluster), ratio(&y, cluster))
	// Output:
	// learnt 5000 rows: Parzen 1, Gaussian 5
	// squared distances between clusters over those within: 1.1, whitened 2.4
}

// ratio is the mean squared distance of rows of different clusters over that of rows of the same one.
func ratio(x *mat.Dense, cluster []int) float64 {
	var sum, pairs [2]float64
	for i := range cluster {
		for j := range i {
			var difference mat.VecDense
			difference.SubVec(x.RowView(i), x.RowView(j))
			apart := (cluster[i] + cluster[j]) % 2
			sum[apart] += mat.Dot(&difference, &difference)
			pairs[apart]++
		}
	}
	return sum[1] / pairs[1] / (sum[0] / pairs[0])
}
