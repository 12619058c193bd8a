package episode

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Budget is a number of false episodes that a user accepts: in a time, or in a number of rows.
type Budget struct {
	Episodes float64
	Per      time.Duration // 0: in rows
	Rows     float64
}

var (
	inTime = regexp.MustCompile(`^(\d{1,12})/(hour|day|week)$`)
	inRows = regexp.MustCompile(`^(\d{1,12})/(\d{1,12}) rows$`)
	units  = map[string]time.Duration{"hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour}
)

// ParseBudget reads a budget: 1/day, 3/week, 1/2000 rows.
func ParseBudget(text string) (Budget, error) {
	var b Budget
	if m := inTime.FindStringSubmatch(text); m != nil {
		b.Episodes, _ = strconv.ParseFloat(m[1], 64)
		b.Per = units[m[2]]
	} else if m := inRows.FindStringSubmatch(text); m != nil {
		b.Episodes, _ = strconv.ParseFloat(m[1], 64)
		b.Rows, _ = strconv.ParseFloat(m[2], 64)
	}
	if !(b.Episodes > 0) || b.Per == 0 && !(b.Rows > 0) {
		return Budget{}, fmt.Errorf("%q is no budget of false episodes: want a number in a time or in rows, as 1/day, 2/week, 1/hour or 1/2000 rows", text)
	}
	if b.Per == 0 && b.Episodes > b.Rows {
		return Budget{}, fmt.Errorf("%q is more than one episode per row", text)
	}
	return b, nil
}

// String returns it as ParseBudget reads it.
func (b Budget) String() string {
	for unit, per := range units {
		if per == b.Per {
			return fmt.Sprintf("%.0f/%s", b.Episodes, unit)
		}
	}
	return fmt.Sprintf("%.0f/%.0f rows", b.Episodes, b.Rows)
}

// Rate is the budget per row where a number of rows come in a time; 0: it is not known.
func (b Budget) Rate(rows float64, in time.Duration) float64 {
	switch {
	case b.Per == 0:
		return b.Episodes / b.Rows
	case rows > 0 && in > 0:
		return b.Episodes * in.Hours() / (b.Per.Hours() * rows)
	}
	return 0
}
