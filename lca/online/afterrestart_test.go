package online

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

// changing learns white noise in which change is made to each row.
func changing(t *testing.T, c Config, rows int, change func(i int, row []float64)) []Step {
	t.Helper()
	l, err := NewLearner(c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, x := rand.New(rand.NewPCG(7, 25)), mat.NewDense(rows, c.Dim, nil)
	for i := range rows {
		row := x.RawRowView(i)
		for k := range row {
			row[k] = r.NormFloat64()
		}
		change(i, row)
	}
	return feed(t, l, x, c.Minibatch)
}

// TestRestartChoosesWhatItBeginsWith holds that a restart, as a stream, may begin as a single Gaussian: the kernels of a first fit would be a nat worse
// here, until the next comparison takes effect.
func TestRestartChoosesWhatItBeginsWith(t *testing.T) {
	c := policies(12)
	c.Preset, c.DriftRows, c.Neighbours = lca.PresetDensity, 500, 1000
	restarts := 0
	for _, s := range changing(t, c, 2200, func(i int, row []float64) {
		if i >= 1600 {
			row[3] = 9 + 0.1*row[3]
		}
	}) {
		if s.Alarm != AlarmDrift {
			continue
		}
		if restarts++; s.Choice == nil || !s.Choice.Beginning() || s.Parzen != 0 || s.Learnt < 450 {
			t.Errorf("the restart has %d Parzen directions of %d rows, and the choice %+v", s.Parzen, s.Learnt, s.Choice)
		}
	}
	if restarts != 1 {
		t.Errorf("%d restarts, want 1", restarts)
	}
}

// TestReturnRightAfterARestart holds that a fault which ends soon after the learner has believed it does not stay in the model, however wide it is:
// the restart knows too little yet to take any rows for anomalous. A change that stays is not taken back.
func TestReturnRightAfterARestart(t *testing.T) {
	for _, c := range []struct {
		name  string
		until int // row at which the fault ends
		wide  float64
		want  []Alarm
	}{
		{"wide", 1500, 30, []Alarm{AlarmDrift, AlarmRegimeReturned}},
		{"very wide", 1500, 1e6, []Alarm{AlarmDrift, AlarmRegimeReturned}},
		{"over when it is believed", 1250, 30, []Alarm{AlarmDrift, AlarmRegimeReturned}},
		{"it stays", 3000, 30, []Alarm{AlarmDrift}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := policies(4)
			config.Neighbours = 500
			var alarms []Alarm
			for i, s := range changing(t, config, 3000, func(i int, row []float64) {
				if i >= 1000 && i < c.until {
					row[1] *= c.wide
				}
			}) {
				if s.Alarm != AlarmNone {
					alarms = append(alarms, s.Alarm)
				}
				if late := i*config.Minibatch - c.until; s.Alarm == AlarmRegimeReturned && late > 200 {
					t.Errorf("the regime returned %d rows late", late)
				}
			}
			if !slices.Equal(alarms, c.want) {
				t.Errorf("alarms %v, want %v", alarms, c.want)
			}
		})
	}
}

// TestReturnBringsBackTheRecentScore holds that a wide fault, which became the new normal because it lasted, is over when the former regime explains the rows again: what
// scores the last rows is then that of the regime too, and does not hold rows for as long as a change must last.
func TestReturnBringsBackTheRecentScore(t *testing.T) {
	const began, over, rows = 1000, 3500, 5500
	c := DefaultConfig(4)
	c.Neighbours = 500
	accepted, held := 0, 0
	for i, s := range changing(t, c, rows, func(i int, row []float64) {
		if i >= began && i < over {
			row[1] *= 30
		}
	}) {
		accepted += s.Accepted
		if late := (i + 1) * c.Minibatch; late > over {
			held += s.Held
		}
	}
	if accepted != 1 || held > 700 {
		t.Errorf("%d series accepted, and %d of the last %d rows held", accepted, held, rows-over)
	}
}
