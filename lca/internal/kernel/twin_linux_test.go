package kernel_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/lca-stream/lca-stream/internal/testtools"
	"github.com/lca-stream/lca-stream/lca/internal/kernel"
	"github.com/lca-stream/lca-stream/lca/internal/linalg"
)

// keep is γ^(B/n) of eq. 8, and eigenEvery the steps between two eigendecompositions, for both sides.
const (
	keep       = 0.98
	eigenEvery = 10
)

// problem is one step's input, written to a directory for the twin.
type problem struct {
	dir          string
	rows, n, dim int
	q, z, c      []float64 // minibatch, pool, C_L
}

func (p *problem) write(b *testing.B) {
	b.Helper()
	for name, v := range map[string][]float64{"q": p.q, "z": p.z, "c": p.c} {
		raw := make([]byte, 0, 8*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
		}
		if err := os.WriteFile(filepath.Join(p.dir, name+".f64"), raw, 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func (p *problem) read(b *testing.B, name string) []float64 {
	b.Helper()
	raw, err := os.ReadFile(filepath.Join(p.dir, name+".f64"))
	if err != nil {
		b.Fatal(err)
	}
	v := make([]float64, len(raw)/8)
	for k := range v {
		v[k] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*k:]))
	}
	return v
}

// stepper is the step as the learner does it: Cholesky factor and centring in float64, projection and
// E-step in float32 where that suffices, and Ĉ_L converted back in float64.
type stepper struct {
	problem
	low, inverse, centre, c []float64
	deviation               []float64
	coordinates             kernel.Coordinates[float32]
	centred                 kernel.CentredRows // the pool, centred: the learner keeps it from one step to the next, and so does numpy
	scratch                 kernel.Scratch[float32]
	pool                    kernel.Neighbours[float32]
	moments                 kernel.Moments
	qw                      []float32
	work                    linalg.Workspace
}

func newStepper(p problem, threads int) *stepper {
	s := &stepper{problem: p}
	d2 := p.dim * p.dim
	s.low, s.inverse, s.c = make([]float64, d2), make([]float64, d2), make([]float64, d2)
	s.centre = meanOf(p.z, p.n, p.dim)
	c := covariance(p.z, p.n, p.dim)
	for k := range p.dim { // the learner has it already, from C_G
		s.deviation = append(s.deviation, math.Sqrt(c[k*p.dim+k]))
	}
	s.centred.Reset(p.z, p.n, s.centre)
	s.qw = make([]float32, len(p.q))
	s.share(threads)
	return s
}

// share sets how many threads a step may use.
func (s *stepper) share(threads int) { s.scratch.Threads, s.coordinates.Threads = threads, threads }

func (s *stepper) run(b *testing.B) {
	d := s.dim
	copy(s.low, s.problem.c)
	if err := new(linalg.Workspace).CholeskyLower(s.low, d); err != nil {
		b.Fatal(err)
	}
	copy(s.inverse, s.low)
	invertLower(s.inverse, d)
	s.load()
	kernel.Update(&s.moments, &s.scratch, s.qw, s.rows, &s.pool, kernel.Exclusion{NearCopy: 1e-6 * float64(d)})
	s.back()
}

// load computes the coordinates of pool and minibatch in the metric.
func (s *stepper) load() {
	s.coordinates.Pack(s.centre, s.inverse, s.dim, s.dim, s.deviation)
	s.pool.Reset(s.n, s.dim, s.dim)
	s.coordinates.Load(&s.pool, s.z, &s.centred)
	s.coordinates.Apply(s.qw, s.q, s.rows)
}

// back converts Ĉ_L to the units of the input and adds it to C_L.
func (s *stepper) back() {
	s.work.Congruence(s.c, linalg.Dense(s.low, s.dim), s.moments.Cov(), s.dim)
	share := (1 - keep) / float64(s.rows)
	for k, v := range s.c {
		s.c[k] = keep*s.problem.c[k] + share*v
	}
}

// twin is a running testdata/twin.py.
type twin struct {
	in  io.Writer
	out *bufio.Scanner
}

type answer struct {
	CPU, Wall float64
	Block     int
	Trmm      bool
}

func startTwin(b *testing.B, threads int) *twin {
	b.Helper()
	cmd := exec.Command(testtools.BenchPython(b), "testdata/twin.py")
	cmd.Env = append(os.Environ(), fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &twin{in: in, out: bufio.NewScanner(out)}
}

func (t *twin) ask(b *testing.B, do string, p *problem) answer {
	b.Helper()
	line, err := json.Marshal(map[string]any{"do": do, "path": p.dir, "rows": p.rows, "n": p.n, "dim": p.dim, "keep": keep})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fprintf(t.in, "%s\n", line); err != nil {
		b.Fatal(err)
	}
	var a answer
	if !t.out.Scan() {
		b.Fatalf("the twin ended at %s", line)
	}
	if err := json.Unmarshal(t.out.Bytes(), &a); err != nil {
		b.Fatalf("%v: %s", err, t.out.Bytes())
	}
	return a
}

// locked keeps the caller on one thread, whose processor time cpuSeconds reads.
func locked(b *testing.B) {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
}
