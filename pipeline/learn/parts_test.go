package learn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// slowLink is a sink on a link that carries a given number of bytes in a transaction's time. It loses the put of one number.
type slowLink struct {
	*memorySink
	most, lose int
	puts       [][]int64 // offsets of the inputs of each, then the offset it commits
}

func (s *slowLink) Most() int { return s.most }

func (s *slowLink) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	if len(msgs) == 0 && len(claim.Next) == 0 {
		return nil // a loop that goes back only asks how the last transaction ended
	}
	var put []int64
	size := 0
	for _, m := range msgs {
		var offset int64
		if _, err := fmt.Sscan(fixtures.Header(m, "lca-source-offset"), &offset); err != nil {
			return err
		}
		put, size = append(put, offset), size+m.Size()
	}
	if size > s.most && len(msgs) > 1 {
		return errors.New("too late")
	}
	if s.lose--; s.lose == 0 {
		return errors.New("no answer")
	}
	s.puts = append(s.puts, append(put, claim.Next[fixtures.Events]))
	return s.memorySink.Put(ctx, msgs, claim)
}

// On a slow link a batch is put in parts, each with the offset that goes with it, so that one that fails takes
// nothing back that is committed. A dead letter has its place among the rest.
func TestPartsOfABatch(t *testing.T) {
	for _, most := range []int{1, 5000, 1 << 20} {
		for lose := range 6 {
			t.Run(fmt.Sprintf("most=%d/lose=%d", most, lose), func(t *testing.T) {
				w := learnt(t)
				w.topics[fixtures.Events][3].Value = []byte("garbage")
				w.topics[fixtures.Events][5].Value = w.topics[fixtures.Events][4].Value[:0:0] // nothing, which is set aside too
				loop := w.transformLoop(t, fixtures.Events, 7)
				s := &slowLink{memorySink: loop.Sink.(*memorySink), most: most, lose: lose}
				loop.Sink = s
				if err := loop.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
				var want, got []int64
				for i := range w.topics[fixtures.Events] {
					want = append(want, int64(i))
				}
				for i, put := range s.puts {
					inputs, next := put[:len(put)-1], put[len(put)-1]
					got = append(got, inputs...)
					if last := int64(len(got)); next != last {
						t.Errorf("put %d holds the inputs %v and commits %d, want %d", i, inputs, next, last)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("every input once, in order (-want +got):\n%s", diff)
				}
				if n := loop.Stats.Tables().DeadLetters; lose == 0 && (n[format.CodeFormatUnknown] != 1 || n[format.CodeEmpty] != 1) {
					t.Errorf("counted %v", n)
				}
			})
		}
	}
}
