package transform

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
)

// What a topic takes is decided as integers of any size would decide it, whatever the timestamp and the bounds are.
func TestBoundsOfAnyTime(t *testing.T) {
	now := time.UnixMilli(1_795_000_000_000)
	clock := func() time.Time { return now }
	for _, bound := range []timeBound{
		{"out", sink.AnyTime, time.Hour}, {"out", time.Hour, sink.AnyTime}, {"out", time.Hour, time.Minute}, {"out", 0, 0},
		{"out", sink.AnyTime - 1, sink.AnyTime - 1}, {"out", -1, -1},
	} {
		for _, ms := range append(slices.Clone(fixtures.WildStamps), now.UnixMilli(), now.UnixMilli()-3_600_001, now.UnixMilli()+3_600_001) {
			age := new(big.Int).Sub(big.NewInt(now.UnixMilli()), big.NewInt(ms))
			within := func(d *big.Int, most time.Duration) bool {
				return most == sink.AnyTime || new(big.Int).Mul(d, big.NewInt(1_000_000)).Cmp(big.NewInt(int64(most))) <= 0
			}
			want := within(age, bound.before) && within(new(big.Int).Neg(age), bound.after)
			if bound.before == -1 {
				want = false
			}
			if bound.before == sink.AnyTime-1 { // beyond what a Duration tells apart
				want = age.IsInt64() && age.CmpAbs(big.NewInt(math.MaxInt64/1_000_000)) <= 0
			}
			if got := (timeBounds{bound}).permit("out", time.UnixMilli(ms), clock); got != want {
				t.Errorf("%v ago to %v ahead, %d: %v, want %v", bound.before, bound.after, ms, got, want)
			}
		}
	}
	var b timeBounds
	if !b.learn(&sink.TimestampError{Topic: "out", Known: true, Before: sink.AnyTime, After: time.Hour}) || !b.permit("out", time.UnixMilli(0), clock) {
		t.Error("a topic without a bound for old records takes them")
	}
}
