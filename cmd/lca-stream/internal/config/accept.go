package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/online"
)

// Accept is for how long a change must last before it is the new normal.
type Accept struct {
	Rows  int           // lca.Auto: by preset; 0: never
	Span  time.Duration // by the clock of the series; 0: Rows counts
	Never bool
}

var (
	acceptRows  = regexp.MustCompile(`^([1-9][0-9]{0,9}) rows$`)
	acceptHours = regexp.MustCompile(`^([1-9][0-9]{0,3})h$`)
)

const mostAcceptHours = 24 * 365

// acceptValue is auto, never, a number of hours or a number of rows.
type acceptValue struct{ p *Accept }

func (v *acceptValue) set(text string) error {
	rows, hours := acceptRows.FindStringSubmatch(text), acceptHours.FindStringSubmatch(text)
	switch {
	case text == "auto":
		*v.p = Accept{Rows: lca.Auto}
		return nil
	case text == "never":
		*v.p = Accept{Never: true}
		return nil
	case rows != nil:
		if n, err := strconv.Atoi(rows[1]); err == nil && n <= billion {
			*v.p = Accept{Rows: n}
			return nil
		}
	case hours != nil:
		if n, _ := strconv.Atoi(hours[1]); n <= mostAcceptHours {
			*v.p = Accept{Span: time.Duration(n) * time.Hour}
			return nil
		}
	}
	return &wrong{what: fmt.Sprintf("%.40q is no time after which a change is the new normal", text), remedy: "write auto, never, hours up to 8760h such as 168h, or rows such as 1000 rows"}
}

func (v *acceptValue) check() error { return nil }

func (v *acceptValue) String() string {
	switch a := v.p; {
	case a.Never:
		return "never"
	case a.Span > 0:
		return fmt.Sprintf("%.0fh", a.Span.Hours())
	case a.Rows == lca.Auto:
		return "auto"
	default:
		return fmt.Sprintf("%d rows", a.Rows)
	}
}

func (v *acceptValue) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^(auto|never|[1-9][0-9]{0,3}h|[1-9][0-9]{0,9} rows)$`}
}

func (v *acceptValue) want() string {
	return "auto, never, hours such as 168h, or rows such as 1000 rows"
}

// rowsOfPreset is up to how many rows the learner's own patience with rows that are far from its metric is that of the preset, once they were accepted.
const rowsOfPreset = 1000

// learner sets what it says for a learner.
func (a Accept) learner(l *online.Config) {
	l.Drift, l.AcceptSpan, l.AcceptRows = !a.Never, a.Span.Milliseconds(), lca.Auto
	if a.Never || a.Span > 0 || a.Rows == lca.Auto {
		return
	}
	if l.AcceptRows = a.Rows; a.Rows < rowsOfPreset || !l.Recent {
		l.DriftRows = a.Rows
	}
}
