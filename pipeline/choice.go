package pipeline

import (
	"log/slog"

	"github.com/lca-stream/lca-stream/lca"
)

// logChoice says what the data have chosen, and what the choice is worth on the rows that judged.
func logChoice(log *slog.Logger, c *lca.Choice, modelID string, rows uint64) {
	if c == nil {
		return
	}
	was, now := c.Candidates[0], c.Candidates[c.Taken]
	attrs := []any{
		"model_id", modelID, "version", rows, "candidates", len(c.Candidates), "d_parzen", now.Parzen, "nu", now.Nu, "nu_unit", now.NuUnit.String(),
		"kernel", now.Kernel.String(), "nll", now.NLL, "nll_before", was.NLL,
	}
	switch {
	case c.Beginning():
		log.Info("the data chose what the model begins with", append(attrs, "taken", now.Name)...)
	case c.Taken == 0:
		log.Info("the data chose to keep the model: no candidate was surely better", attrs...)
	case !c.Other():
		log.Info("the data chose the same settings, fitted again", append(attrs, "taken", now.Name)...)
	default:
		log.Info("the data chose another model", append(attrs, "taken", now.Name)...)
	}
}
