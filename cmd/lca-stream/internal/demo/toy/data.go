// Package toy holds the streams of `lca-stream demo`: the paper's toy data (section 6.1), and the digits. Nothing of it is
// on the data path.
package toy

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"

	"github.com/lca-stream/lca-stream/lca"
)

// Stream is an endless source of labelled rows. The labels serve only to judge the result.
type Stream struct {
	Name     string
	About    string // one line for the screen
	Dim      int
	Clusters int
	Noise    int        // number of white-noise columns among the Dim
	Preset   lca.Preset // suitable lca.preset: thin structure needs a sharp density
	Model    lca.Kind   // lca.model: the search of LCA-Gauss-Red finds how few directions a toy's structure needs
	row      func(rng *rand.Rand, x []float64) (label int)
	rng      *rand.Rand
}

// Names lists the streams that Open knows.
func Names() []string { return []string{"five", "two", "circles", "digits"} }

// Open returns the named stream; the same seed gives the same rows.
func Open(name string, seed uint64) (*Stream, error) {
	rng := rand.New(rand.NewPCG(seed, 0x1ca))
	switch name {
	case "five":
		return toy(rng, "five", "five Gaussians in a plane, the middle one four times as heavy, and 10 noise columns", 5, 10, 3, five), nil
	case "two":
		return toy(rng, "two", "two Gaussians six standard deviations apart, and 20 noise columns", 2, 20, 2.345, two), nil
	case "circles":
		return toy(rng, "circles", "two circles of radius 1 and 2, and 5 noise columns", 2, 5, 1.123, circles), nil
	case "digits":
		return digits(rng)
	}
	return nil, fmt.Errorf("demo: no data set %q: want one of %v", name, Names())
}

// Next fills x (rows×Dim) and labels with the next rows.
func (s *Stream) Next(x []float64, labels []int) {
	for i := range labels {
		labels[i] = s.row(s.rng, x[i*s.Dim:(i+1)*s.Dim])
	}
}

// toy adds noise columns to a plane, and rotates everything so that no single column is pure noise. A noise column
// has the standard deviation of the plane's columns (spread, the root mean square of the two). The paper whitens
// everything before it starts, which has the same effect.
func toy(rng *rand.Rand, name, about string, clusters, noise int, spread float64, plane func(*rand.Rand) (x, y float64, label int)) *Stream {
	d := 2 + noise
	mix := rotation(rng, d)
	z := make([]float64, d)
	row := func(rng *rand.Rand, x []float64) int {
		var label int
		z[0], z[1], label = plane(rng)
		for j := 2; j < d; j++ {
			z[j] = rng.NormFloat64() * spread
		}
		for i := range x {
			x[i] = 0
			for j, v := range z {
				x[i] += mix[i*d+j] * v
			}
		}
		return label
	}
	return &Stream{Name: name, About: about, Dim: d, Clusters: clusters, Noise: noise, Preset: lca.PresetDensity, Model: lca.KindLCAGaussRed, row: row, rng: rng}
}

func five(rng *rand.Rand) (x, y float64, label int) {
	centres := [5][2]float64{{0, 0}, {4, 4}, {4, -4}, {-4, 4}, {-4, -4}}
	if u := rng.IntN(8); u >= 4 {
		label = u - 3
	}
	return centres[label][0] + rng.NormFloat64(), centres[label][1] + rng.NormFloat64(), label
}

func two(rng *rand.Rand) (x, y float64, label int) {
	label = rng.IntN(2)
	return float64(6*label-3) + rng.NormFloat64(), rng.NormFloat64(), label
}

func circles(rng *rand.Rand) (x, y float64, label int) {
	label = rng.IntN(2)
	radius, angle := float64(1+label)+0.1*rng.NormFloat64(), 2*math.Pi*rng.Float64()
	return radius * math.Cos(angle), radius * math.Sin(angle), label
}

// rotation is a random orthogonal d×d matrix: Gram–Schmidt on Gaussian rows.
func rotation(rng *rand.Rand, d int) []float64 {
	q := make([]float64, d*d)
	for i := range d {
		row := q[i*d : (i+1)*d]
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		for k := range i {
			prev := q[k*d : (k+1)*d]
			dot := 0.0
			for j := range row {
				dot += row[j] * prev[j]
			}
			for j := range row {
				row[j] -= dot * prev[j]
			}
		}
		norm := 0.0
		for _, v := range row {
			norm += v * v
		}
		for j := range row {
			row[j] /= math.Sqrt(norm)
		}
	}
	return q
}

// digitsFile is "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, UCI Machine
// Learning Repository, 1998), CC BY 4.0; the attribution is also in the file's metadata.
//
//go:embed digits.arrow
var digitsFile []byte

// digits draws rows of the real data at random with replacement: a stream with exact repeats.
func digits(rng *rand.Rand) (*Stream, error) {
	x, labels, dim, err := readDigits()
	if err != nil {
		return nil, err
	}
	order := rng.Perm(len(labels))
	next := 0
	row := func(rng *rand.Rand, dst []float64) int {
		if next == len(order) {
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			next = 0
		}
		i := order[next]
		next++
		copy(dst, x[i*dim:(i+1)*dim])
		return labels[i]
	}
	return &Stream{Name: "digits", About: "8×8 images of handwritten digits (UCI, CC BY 4.0), drawn again and again", Dim: dim, Clusters: 10, Preset: lca.PresetMetric, Model: lca.KindLCAGauss, row: row, rng: rng}, nil
}

func readDigits() (x []float64, labels []int, dim int, err error) {
	file, err := ipc.NewFileReader(bytes.NewReader(digitsFile))
	if err != nil {
		return nil, nil, 0, fmt.Errorf("demo: digits: %w", err)
	}
	defer func() { _ = file.Close() }()
	for b := range file.NumRecords() {
		rec, err := file.Record(b)
		if err != nil {
			return nil, nil, 0, fmt.Errorf("demo: digits: %w", err)
		}
		list := rec.Column(rec.Schema().FieldIndices("x")[0]).(*array.FixedSizeList)
		dim = int(list.DataType().(*arrow.FixedSizeListType).Len())
		for _, v := range list.ListValues().(*array.Float32).Float32Values()[:dim*int(rec.NumRows())] {
			x = append(x, float64(v))
		}
		label := rec.Column(rec.Schema().FieldIndices("label")[0])
		for i := range int(rec.NumRows()) {
			n, err := labelAt(label, i)
			if err != nil {
				return nil, nil, 0, err
			}
			labels = append(labels, n)
		}
	}
	return slices.Clip(x), labels, dim, nil
}

func labelAt(a arrow.Array, i int) (int, error) {
	switch a := a.(type) {
	case *array.Int64:
		return int(a.Value(i)), nil
	case *array.Int32:
		return int(a.Value(i)), nil
	case *array.Uint8:
		return int(a.Value(i)), nil
	case *array.Int8:
		return int(a.Value(i)), nil
	}
	return 0, fmt.Errorf("demo: digits: label has type %v", a.DataType())
}
