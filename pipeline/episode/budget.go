package episode

import (
	"fmt"
	"math"
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
	inTime = regexp.MustCompile(`^(\d{1,12})/(?:(hour|day|week)|(\d{1,4}) (hour|day|week)s?)$`)
	inRows = regexp.MustCompile(`^(\d{1,12})/(\d{1,12}) rows$`)
	units  = [...]struct {
		name string
		of   time.Duration
	}{{"week", 7 * 24 * time.Hour}, {"day", 24 * time.Hour}, {"hour", time.Hour}}
)

// mostUnits is the most that a budget has of a unit: weeks of 191 years.
const mostUnits = 9999

// ParseBudget reads a budget: 1/day, 3/week, 1/30 days, 1/2000 rows.
func ParseBudget(text string) (Budget, error) {
	var b Budget
	if m := inTime.FindStringSubmatch(text); m != nil {
		b.Episodes, _ = strconv.ParseFloat(m[1], 64)
		number := 1
		if m[3] != "" {
			number, _ = strconv.Atoi(m[3])
		}
		for _, u := range units {
			if u.name == m[2]+m[4] {
				b.Per = time.Duration(number) * u.of
			}
		}
	} else if m := inRows.FindStringSubmatch(text); m != nil {
		b.Episodes, _ = strconv.ParseFloat(m[1], 64)
		b.Rows, _ = strconv.ParseFloat(m[2], 64)
	}
	if !(b.Episodes > 0) || b.Per == 0 && !(b.Rows > 0) {
		return Budget{}, fmt.Errorf("%q is no budget of false episodes: want a number in a time or in rows, as 1/day, 2/week, 1/30 days or 1/2000 rows", text)
	}
	if b.Per == 0 && b.Episodes > b.Rows {
		return Budget{}, fmt.Errorf("%q is more than one episode per row", text)
	}
	return b, nil
}

// String returns it as ParseBudget reads it.
func (b Budget) String() string {
	if b.Per == 0 {
		return fmt.Sprintf("%.0f/%.0f rows", b.Episodes, b.Rows)
	}
	return fmt.Sprintf("%.0f/%s", b.Episodes, b.Span())
}

// Span is the time of a budget, in the largest unit that divides it: day, 30 days.
func (b Budget) Span() string {
	number, name := b.units()
	if number == 1 {
		return name
	}
	return fmt.Sprintf("%d %ss", number, name)
}

func (b Budget) units() (number int, name string) {
	for _, u := range units {
		if number, name = int(b.Per/u.of), u.name; b.Per%u.of == 0 {
			break
		}
	}
	return number, name
}

// Scaled is a budget of number/of times as many episodes, as ParseBudget reads it; one in rows has the nearest whole number of them.
func (b Budget) Scaled(number, of int) Budget {
	if number == of {
		return b
	}
	if b.Per == 0 {
		return Budget{Episodes: 1, Rows: max(1, math.Round(b.Rows*float64(of)/(b.Episodes*float64(number))))}
	}
	held, _ := b.units()
	unit := b.Per / time.Duration(held)
	episodes, units := int(b.Episodes)*number, held*of
	divisor, rest := episodes, units
	for rest > 0 {
		divisor, rest = rest, divisor%rest
	}
	return Budget{Episodes: float64(episodes / divisor), Per: unit * time.Duration(min(units/divisor, mostUnits))}
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
