package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/lca-stream/lca-stream/lca"
)

// tuning is what --tune has found.
type tuning struct {
	Rows       uint64      `json:"rows"`        // usable rows of the range
	Train      int         `json:"train_rows"`  // rows that the candidates were fitted to
	Fresh      int         `json:"fresh_rows"`  // rows that judged them
	Blocks     int         `json:"blocks"`      // of fresh rows
	Margin     int         `json:"margin_rows"` // left out on either side of a block
	Copies     int         `json:"copies"`      // fresh rows left out as near copies of rows that candidates were fitted to
	Candidates []candidate `json:"candidates"`
	Nu         *float64    `json:"nu"` // null for the single Gaussian, which has none
	NuGaussian float64     `json:"nu_gaussian"`
	NuUnit     string      `json:"nu_unit"`
	NLL        *float64    `json:"nll"` // of the best candidate
	YAML       string      `json:"yaml"`
	Note       string      `json:"note,omitempty"` // what the figures do not say
	Seconds    float64     `json:"seconds"`
}

// candidate is a pair of ν and ν_g. Errors are standard errors, from the differences between blocks.
type candidate struct {
	Algorithm       string   `json:"algorithm"` // gaussian while ν_g is chosen
	Nu              *float64 `json:"nu"`        // null for the single Gaussian
	NuGaussian      float64  `json:"nu_gaussian"`
	NLL             *float64 `json:"nll"` // null where the fit collapsed
	Error           *float64 `json:"standard_error"`
	Difference      *float64 `json:"difference"` // from the best of the same algorithm
	DifferenceError *float64 `json:"difference_error"`
	Best            bool     `json:"best"`
}

// candidates compares each candidate with the best of its kind.
func (r *replay) candidates(tried []lca.Tuning, h *holdOut) []candidate {
	best := map[lca.Kind]lca.Tuning{}
	for _, t := range tried {
		if b, ok := best[t.Kind]; !ok || t.NLL < b.NLL {
			best[t.Kind] = t
		}
	}
	var all []candidate
	for _, t := range tried {
		b := best[t.Kind]
		c := candidate{Algorithm: r.flags.algorithm, NuGaussian: t.NuGaussian, NLL: finite(t.NLL), Best: t.Nu == b.Nu && t.NuGaussian == b.NuGaussian}
		if t.Kind == lca.KindGaussian {
			c.Algorithm = algorithmOf(t.Kind)
		} else {
			c.Nu = &t.Nu
		}
		if t.Fresh != nil {
			_, c.Error = h.mean(t.Fresh)
			difference := make([]float64, len(t.Fresh))
			for i, v := range t.Fresh {
				difference[i] = v - b.Fresh[i]
			}
			c.Difference, c.DifferenceError = h.mean(difference)
		}
		all = append(all, c)
	}
	return all
}

// note says what the figures do not.
func (r *replay) note(best lca.Config, grid lca.TuneGrid) string {
	var notes []string
	if v := grid.Nu; best.Kind != lca.KindGaussian && (best.Nu == v[0] || best.Nu == v[len(v)-1]) {
		notes = append(notes, fmt.Sprintf("ν = %s is at the end of what was tried: one beyond it may be better", plain(best.Nu)))
	}
	if r.config.LCA.Preset == lca.PresetMetric {
		notes = append(notes, "the NLL says which ν is best for scores; for clusters and neighbours, which preset: metric is for, it is no guide")
	}
	return strings.Join(notes, "; ")
}

// conclude says what was best.
func (t *tuning) conclude(best lca.Config) {
	settings := ""
	if best.Kind != lca.KindGaussian {
		t.Nu = &best.Nu
		settings = fmt.Sprintf("nu: %s, ", plain(best.Nu))
	}
	if best.Kind != lca.KindLCA {
		settings += fmt.Sprintf("nu_gaussian: %s, ", plain(best.NuGaussian))
	}
	t.YAML = fmt.Sprintf("lca: {%snu_unit: %v}", settings, best.NuUnit)
	for _, c := range t.Candidates {
		if c.Best {
			t.NLL = c.NLL // the last is of the algorithm itself
		}
	}
}

// write prints what was tried, for people.
func (t *tuning) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d rows: candidates fitted to %d, judged by %d others in %d blocks (%d rows left out on either side of a block, %d copies)\n",
		t.Rows, t.Train, t.Fresh, t.Blocks, t.Margin, t.Copies)
	algorithm := ""
	for _, c := range t.Candidates {
		if err != nil {
			return err
		}
		if c.Algorithm != algorithm {
			algorithm = c.Algorithm
			if _, err = fmt.Fprintf(w, "\n%s\n  %8s  %8s  %20s  %s\n", algorithm, "ν", "ν_g", "NLL, nats/row", "above the best"); err != nil {
				return err
			}
		}
		mark := " "
		if c.Best {
			mark = "*"
		}
		nu := "–"
		if c.Nu != nil {
			nu = plain(*c.Nu)
		}
		nll, above := "collapsed", ""
		if c.NLL != nil {
			nll, above = fmt.Sprintf("%s ± %s", short(c.NLL), short(c.Error)), fmt.Sprintf("%s ± %s", short(c.Difference), short(c.DifferenceError))
		}
		_, err = fmt.Fprintf(w, "%s %8s  %8s  %20s  %s\n", mark, nu, plain(c.NuGaussian), nll, above)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "\nbest, to paste into the configuration:\n%s\n", t.YAML)
	}
	if err == nil && t.Note != "" {
		_, err = fmt.Fprintf(w, "note: %s\n", t.Note)
	}
	return err
}

// plain is a number without an exponent, which some readers of YAML take for text.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func short(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return fmt.Sprintf("%.4f", *v)
}
