package snapshot

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/lca"
)

// Choice is lca.Choice in JSON, as the metadata and the status page show it.
type Choice struct {
	Rows       uint64            `json:"rows"`
	Candidates []ChoiceCandidate `json:"candidates"`
	Taken      string            `json:"taken"` // name of a candidate
}

// ChoiceCandidate is lca.Trial in JSON.
type ChoiceCandidate struct {
	Name   string   `json:"name"`
	Nu     float64  `json:"nu"`
	NuUnit string   `json:"nu_unit"`
	Kernel string   `json:"kernel"`
	Parzen int      `json:"d_parzen"`
	NLL    *float64 `json:"nll"` // nil where the candidate collapsed
}

// ChoiceOf returns a choice in JSON's form; nil for nil.
func ChoiceOf(c *lca.Choice) *Choice {
	if c == nil || len(c.Candidates) == 0 {
		return nil
	}
	out := &Choice{Rows: c.Rows, Taken: c.Candidates[c.Taken].Name}
	for _, t := range c.Candidates {
		entry := ChoiceCandidate{Name: t.Name, Nu: t.Nu, NuUnit: t.NuUnit.String(), Kernel: t.Kernel.String(), Parzen: t.Parzen}
		if !math.IsNaN(t.NLL) && !math.IsInf(t.NLL, 0) {
			entry.NLL = &t.NLL
		}
		out.Candidates = append(out.Candidates, entry)
	}
	return out
}

// Beginning is that of lca.Choice.
func (c *Choice) Beginning() bool { return c.Candidates[0].Name == lca.FirstFit }

// choiceJSON writes a choice, null for none.
func choiceJSON(c *lca.Choice) string { return mustJSON(ChoiceOf(c)) }

func parseChoice(text string) (*lca.Choice, error) {
	var from *Choice
	if err := json.Unmarshal([]byte(text), &from); err != nil || from == nil {
		return nil, err
	}
	c := &lca.Choice{Rows: from.Rows}
	for _, e := range from.Candidates {
		t := lca.Trial{Name: e.Name, Parzen: e.Parzen, Nu: e.Nu, NLL: math.Inf(1)}
		if e.NLL != nil {
			t.NLL = *e.NLL
		}
		var err error
		if t.NuUnit, err = lca.ParseUnit(e.NuUnit); err != nil {
			return nil, err
		}
		if t.Kernel, err = lca.ParseKernel(e.Kernel); err != nil {
			return nil, err
		}
		c.Candidates = append(c.Candidates, t)
	}
	c.Taken = slices.IndexFunc(c.Candidates, func(t lca.Trial) bool { return t.Name == from.Taken })
	if c.Taken < 0 {
		return nil, fmt.Errorf("took %q, which is no candidate", from.Taken)
	}
	return c, nil
}
