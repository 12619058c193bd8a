package topics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
)

// retention is how long a topic keeps a record, by the record's time, in milliseconds as retention.ms has it: negative is
// forever, 0 is not known.
type retention int64

const (
	forever retention = -1
	day               = retention(24 * time.Hour / time.Millisecond)
	// usualRetention is Kafka's default. Topics that are created get a setting of their own where the source is kept
	// for longer.
	usualRetention = 7 * day
)

func parseRetention(value string) (retention, error) {
	ms, err := strconv.ParseInt(value, 10, 64)
	return max(retention(ms), forever), err
}

// keeps is how long a topic keeps a record that no other replaces. One that is compacted alone deletes nothing by age.
func (t topic) keeps() retention {
	if t.policy != "" && !strings.Contains(t.policy, "delete") {
		return forever
	}
	return t.retention
}

// longerThan is false where either is not known.
func (r retention) longerThan(other retention) bool {
	return r != 0 && other > 0 && (r == forever || r > other)
}

// setting returns the value of retention.ms.
func (r retention) setting() string { return strconv.FormatInt(int64(r), 10) }

func (r retention) String() string {
	switch {
	case r == forever:
		return "ever"
	case r%day == 0, r > math.MaxInt64/retention(time.Millisecond): // a Duration ends at 292 years
		return plural.Count(int(r/day), "day")
	}
	return fmt.Sprint(time.Duration(r) * time.Millisecond)
}
