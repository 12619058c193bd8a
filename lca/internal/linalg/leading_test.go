package linalg

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lca-stream/lca-stream/lca/internal/kernel"
)

// TestLeading compares with the whole decomposition, on spectra that are easy, hard, and of one value.
func TestLeading(t *testing.T) {
	const k = 3
	for name, value := range map[string]func(i int) float64{
		"apart":        func(i int) float64 { return 1 / float64(1+i*i) },
		"near":         func(i int) float64 { return 1 - 1e-4*float64(i) },
		"one":          func(int) float64 { return 2 },
		"of low rank":  func(i int) float64 { return max(0, 5-float64(i)) },
		"a wide range": func(i int) float64 { return math.Exp(-float64(i)) },
	} {
		for _, n := range []int{1 + k, 40, 200} {
			c := withSpectrum(n, value)
			var w Workspace
			asked := 0
			product := func(dst, v []float64, cols int) {
				asked += cols
				w.Product(dst, cols, Dense(c, n), Dense(v, cols), n, cols, n, Set)
			}
			values, vectors, err := new(Workspace).Leading(product, n, k, nil, LeadingBlocks)
			if err != nil {
				t.Fatal(err)
			}
			for j := range k {
				if want := value(j); !(math.Abs(values[j]-want) <= 1e-12*value(0)) {
					t.Errorf("%s, order %d: eigenvalue %d is %.15g, want %.15g", name, n, j, values[j], want)
				}
			}
			image := multiplyRows(vectors[:k*n], c, n)
			for i, v := range image {
				if want := values[i/n] * vectors[i]; !(math.Abs(v-want) <= 1e-10*value(0)) {
					t.Fatalf("%s, order %d: C v is %v, θ v %v", name, n, v, want)
				}
			}
			if name == "apart" && n == 200 && asked >= n/2 {
				t.Errorf("it took %d products for %d vectors of order %d", asked, k, n)
			}
			before := asked
			if _, _, err = new(Workspace).Leading(product, n, k, vectors, LeadingBlocks); err != nil {
				t.Fatal(err)
			}
			if again := asked - before; name == "apart" && n == 200 && again > 2*kernel.TileWidth {
				t.Errorf("from the vectors themselves it took %d products", again)
			}
		}
	}
}

// TestLeadingFollows goes from one matrix to the next, as EM does, from nearly all of the vectors: what a block then has beyond the basis is hardly
// more than rounding, and must be apart from it all the same. With a basis that is not orthonormal the whole matrix would be asked for.
func TestLeadingFollows(t *testing.T) {
	const n, k = 400, 8
	spectrum := func(i int) float64 {
		if i < k {
			return 1 / float64(1+i)
		}
		return 1e-3 / float64(i)
	}
	c, a := withSpectrum(n, spectrum), normals(rand.New(rand.NewPCG(8, 8)), n)
	var w Workspace
	var start []float64
	for step := range 12 {
		share, asked := 1e-4*math.Pow(0.3, float64(step)), 0
		moved := make([]float64, n*n)
		for i, v := range c {
			moved[i] = v + share*a[i/n]*a[i%n] // of one direction, so that what is left of the block's vectors is nearly the same
		}
		_, vectors, err := w.Leading(func(dst, v []float64, cols int) {
			asked += cols
			new(Workspace).Product(dst, cols, Dense(moved, n), Dense(v, cols), n, cols, n, Set)
		}, n, k, start, LeadingBlocks)
		if err != nil {
			t.Fatal(err)
		}
		if asked >= n {
			t.Errorf("step %d asked for %d products of a matrix of order %d", step, asked, n)
		}
		start = vectors
	}
}

// TestFollow holds that of a matrix that turns, the vectors that are followed by two products a step stay near those that are searched.
func TestFollow(t *testing.T) {
	const n, k = 120, 3
	c := withSpectrum(n, func(i int) float64 { return 10 / float64(i+1) })
	r := rand.New(rand.NewPCG(n, 10))
	var w Workspace
	var followed []float64
	for step := range 40 {
		for j := range n { // a part of it is another row's
			v := 0.1 * r.NormFloat64()
			for i := range n {
				c[i*n+j] += float64(v * c[i])
			}
		}
		symmetrise(c, n)
		Mirror(c, n)
		asked := 0
		product := func(dst, v []float64, cols int) {
			asked += cols
			new(Workspace).Product(dst, cols, Dense(c, n), Dense(v, cols), n, cols, n, Set)
		}
		want, vectors, err := w.Leading(product, n, k, followed, LeadingBlocks)
		if err != nil {
			t.Fatal(err)
		}
		if step == 0 {
			followed = vectors
			continue
		}
		asked = 0
		got, next, err := w.Leading(product, n, k, followed, LeadingFollow)
		if err != nil {
			t.Fatal(err)
		}
		if limit := 2 * kernel.TileWidth; asked > limit {
			t.Fatalf("step %d asked for %d products, want at most %d", step, asked, limit)
		}
		for j, v := range got[:k] {
			if !(math.Abs(v-want[j]) <= 1e-4*want[j]) {
				t.Errorf("step %d: eigenvalue %d is followed as %.9g, is %.9g", step, j, v, want[j])
			}
		}
		followed = next
	}
}

// TestLeadingGivesUp holds that of a matrix that is there, whose eigenvalues are not apart, few blocks are tried before it is decomposed.
func TestLeadingGivesUp(t *testing.T) {
	const n, k = 320, 8
	c := withSpectrum(n, func(i int) float64 { return 2 - float64(i)/n })
	for most, blocks := range map[int]int{LeadingFew: 6, LeadingBlocks: 16} {
		var w Workspace
		asked := 0
		values, _, err := w.Leading(func(dst, v []float64, cols int) {
			asked += cols
			new(Workspace).Product(dst, cols, Dense(c, n), Dense(v, cols), n, cols, n, Set)
		}, n, k, nil, most)
		if err != nil {
			t.Fatal(err)
		}
		if limit := blocks*kernel.TileWidth + n; asked > limit {
			t.Errorf("with %d blocks it asked for %d products, want at most %d", most, asked, limit)
		}
		for j, v := range values[:k] {
			if want := 2 - float64(j)/n; !(math.Abs(v-want) <= 1e-11) {
				t.Errorf("eigenvalue %d is %.15g, want %.15g", j, v, want)
			}
		}
	}
}

// withSpectrum returns a matrix with these eigenvalues, the largest first, in directions at random.
func withSpectrum(n int, value func(i int) float64) []float64 {
	r := rand.New(rand.NewPCG(uint64(n), 9))
	var w Workspace
	base := normals(r, n*n)
	gram := make([]float64, n*n)
	w.AddGram(gram, base, n, n)
	_, q, err := EigenSym(gram, n)
	if err != nil {
		panic(err)
	}
	scaled := append([]float64(nil), q...)
	for i := range n {
		for j := range n {
			scaled[i*n+j] *= value(j)
		}
	}
	c := make([]float64, n*n)
	w.Product(c, n, Dense(scaled, n), Dense(q, n).T(), n, n, n, Set)
	return c
}

func multiplyRows(rows, c []float64, n int) []float64 {
	out := make([]float64, len(rows))
	new(Workspace).Product(out, n, Dense(rows, n), Dense(c, n), len(rows)/n, n, n, Set)
	return out
}
