package online

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

func stateOf(t testing.TB, l *Learner) []byte {
	t.Helper()
	b, err := l.AppendBinary([]byte("prefix"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimPrefix(b, []byte("prefix"))
}

// variants are configurations that take different ways through the learner.
func variants(d int) map[string]Config {
	base := DefaultConfig(d)
	base.Precision, base.Neighbours, base.Preset = lca.Float64, 400, lca.PresetDensity
	vary := func(f func(c *Config)) Config {
		c := base
		f(&c)
		return c
	}
	return map[string]Config{
		"defaults":    base,
		"red":         vary(func(c *Config) { c.Kind = lca.KindLCAGaussRed }),
		"lca":         vary(func(c *Config) { c.Kind = lca.KindLCA }),
		"float32":     vary(func(c *Config) { c.Precision = lca.Float32; c.Neighbours = 120 }),
		"diagonal":    vary(func(c *Config) { c.Metric = lca.MetricDiagonal }),
		"parzen":      vary(func(c *Config) { c.Components = lca.ComponentsParzen }),
		"finite":      vary(func(c *Config) { c.Finite = true }),
		"exponential": vary(func(c *Config) { c.Neighbours = 5 * d }),
	}
}

// A learner restored at any point goes on as one that was never interrupted, bit for bit, also
// while it is still warming up.
func TestStateContinues(t *testing.T) {
	const d, b, minibatches = 6, 50, 24
	x := five(rand.New(rand.NewPCG(7, 1)), b*minibatches, d-2)
	for name, c := range variants(d) {
		t.Run(name, func(t *testing.T) {
			whole, err := NewLearner(c)
			if err != nil {
				t.Fatal(err)
			}
			resumed := whole
			for i := range minibatches {
				part := x.Slice(i*b, (i+1)*b, 0, d).(*mat.Dense)
				if i == 2 || i == 5 || i == 17 {
					next, err := NewLearner(c)
					if err != nil {
						t.Fatal(err)
					}
					if err := next.UnmarshalBinary(stateOf(t, resumed)); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(stateOf(t, next), stateOf(t, resumed)) {
						t.Fatal("a state that is read and written again differs")
					}
					resumed = next
				}
				if _, err := whole.Learn(part, sequence(i*b, b), nil); err != nil {
					t.Fatal(err)
				}
				if resumed != whole {
					if _, err := resumed.Learn(part, sequence(i*b, b), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !bytes.Equal(stateOf(t, whole), stateOf(t, resumed)) {
				t.Error("the interrupted learner went another way")
			}
			whole.Close()
			resumed.Close()
		})
	}
}

// Publishing does not change what is learnt.
func TestLearningDependsOnRowsAlone(t *testing.T) {
	const d = 6
	x := five(rand.New(rand.NewPCG(8, 1)), 1500, d-2)
	c := DefaultConfig(d)
	c.Precision, c.Neighbours = lca.Float64, 400
	learn := func(publish bool) []byte {
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < 1500; i += 50 {
			if _, err := l.Learn(x.Slice(i, i+50, 0, d).(*mat.Dense), sequence(i, 50), nil); err != nil {
				t.Fatal(err)
			}
			if publish && i >= 300 && i%150 == 0 {
				if _, err := l.Model(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return stateOf(t, l)
	}
	want := learn(false)
	if !bytes.Equal(learn(true), want) {
		t.Error("Model changed the state")
	}
}

// Nor does the number of threads: here an E-step has enough to do for three.
func TestLearningWithThreads(t *testing.T) {
	const d, n, minibatch = 16, 3072, 1024
	x := five(rand.New(rand.NewPCG(8, 1)), 3*minibatch, d-2)
	c := DefaultConfig(d)
	c.Precision, c.Neighbours, c.Minibatch = lca.Float64, n, minibatch
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	learn := func(threads int) []byte {
		runtime.GOMAXPROCS(threads)
		l, err := NewLearner(c)
		if err != nil {
			t.Fatal(err)
		}
		feed(t, l, x, minibatch)
		return stateOf(t, l)
	}
	if !bytes.Equal(learn(3), learn(1)) {
		t.Error("three threads learnt other bits than one")
	}
}

func TestStateRefused(t *testing.T) {
	c := DefaultConfig(6)
	c.Precision, c.Neighbours = lca.Float64, 200
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	feed(t, l, five(rand.New(rand.NewPCG(9, 1)), 500, 4), 50)
	good := stateOf(t, l)
	change := func(at int, by byte) []byte {
		b := bytes.Clone(good)
		b[at] ^= by
		return b
	}
	// resum makes the checksum fit the body again, so that what is wrong is found behind it.
	resum := func(b []byte) []byte {
		binary.LittleEndian.PutUint64(b[12:], uint64(len(b)-24))
		binary.LittleEndian.PutUint32(b[20:], crc32.Checksum(b[24:], castagnoli))
		return b
	}
	other := c
	other.Neighbours = 300
	for name, tc := range map[string]struct {
		state []byte
		into  Config
		want  string
	}{
		"empty":           {nil, c, "do not begin with"},
		"foreign":         {change(0, 1), c, "do not begin with"},
		"newer layout":    {change(8, 64), c, "by a newer one"},
		"never released":  {change(8, stateVersion^4), c, "never released"},
		"cut":             {good[:len(good)-1], c, "was cut"},
		"one bit flipped": {change(1000, 1), c, "damaged"},
		"body cut":        {resum(bytes.Clone(good[:len(good)-9])), c, "state:"},
		"body too long":   {resum(append(bytes.Clone(good), 0)), c, "1 bytes too many"},
		"length of 2⁶³":   {resum(change(24+7, 0x80)), c, "claims"},
		"another pool":    {good, other, "Neighbours is 200, the configuration's 300"},
	} {
		t.Run(name, func(t *testing.T) {
			into, err := NewLearner(tc.into)
			if err != nil {
				t.Fatal(err)
			}
			before := stateOf(t, into)
			err = into.UnmarshalBinary(tc.state)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one that says %q", err, tc.want)
			}
			if !bytes.Equal(stateOf(t, into), before) {
				t.Error("the learner changed")
			}
		})
	}
	if err := new(Learner).UnmarshalBinary(good); err == nil {
		t.Error("a Learner that NewLearner did not make took a state")
	}
	o, err := StateOrigin(good)
	if err != nil || o.Arch != runtime.GOARCH || o.Go != runtime.Version() || o.Kernel == "" {
		t.Errorf("origin %+v, %v", o, err)
	}
	if other := (Origin{Arch: "s390x", Go: o.Go}); !o.SameBits() || other.SameBits() {
		t.Errorf("same bits: %v of this build, %v of another architecture", o.SameBits(), other.SameBits())
	}
}
