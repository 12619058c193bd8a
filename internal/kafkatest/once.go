package kafkatest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Once judges by the topics alone what has become of an input: each of its messages must be in one of the others, once, and those of a partition of the
// input in its order within each partition. It returns what is not so, at most ten of it, and how many messages there are.
//
// It believes neither the group nor what the program says of itself. It reads with franz-go, and looks at nothing but where a record says that it is from.
func (b *Broker) Once(t testing.TB, input string, others ...string) (faults []string, messages int) {
	t.Helper()
	fault := func(format string, args ...any) {
		if len(faults) < 10 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	type place struct {
		partition int32
		offset    int64
	}
	found := map[place]string{}
	for _, topic := range others {
		last := map[[2]int32]int64{} // partition of the topic, and of the input
		for _, r := range b.ReadCommitted(t, topic) {
			at := place{int32(headerNumber(t, r, "lca-source-partition")), headerNumber(t, r, "lca-source-offset")}
			where := fmt.Sprintf("%s/%d@%d", topic, r.Partition, r.Offset)
			if was, again := found[at]; again {
				fault("%s/%d@%d is in %s and again in %s", input, at.partition, at.offset, was, where)
			}
			found[at] = where
			if before, any := last[[2]int32{r.Partition, at.partition}]; any && before > at.offset {
				fault("%s/%d@%d comes in %s after %d", input, at.partition, at.offset, where, before)
			}
			last[[2]int32{r.Partition, at.partition}] = at.offset
		}
	}
	missing := 0
	for _, r := range b.ReadCommitted(t, input) {
		messages++
		if _, ok := found[place{r.Partition, r.Offset}]; !ok {
			fault("%s/%d@%d is nowhere", input, r.Partition, r.Offset)
			missing++
		}
		delete(found, place{r.Partition, r.Offset})
	}
	for at, where := range found {
		fault("%s says that it is of %s/%d@%d, which is not there", where, input, at.partition, at.offset)
	}
	if len(faults) > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d messages are missing", missing, messages))
	}
	return faults, messages
}

func headerNumber(t testing.TB, r *kgo.Record, key string) int64 {
	t.Helper()
	for _, h := range r.Headers {
		if h.Key == key {
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	t.Fatalf("kafkatest: %s/%d@%d has no number in header %s", r.Topic, r.Partition, r.Offset, key)
	return 0
}
