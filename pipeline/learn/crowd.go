package learn

import (
	"cmp"
	"context"
	"slices"

	"github.com/lca-stream/lca-stream/source"
)

// A partition keeps the models of at most KeyedLearnConfig.Most values, those last heard of: a producer that makes up keys does not choose
// how much is kept.
//
// Models are counted before the first record at or behind each multiple of Most/16, but at least 8. If there are more than Most, all but the 7/8 of Most
// that were heard of last are retired: a cut says from which offset on, and before which offset their last rows are. From there on a
// row begins such a model again, whether its records are deleted already or not, as after model.idle. So the input's records alone decide
// what is learnt.
//
// After a restart rows come again while models know of later ones already, so what was counted cannot be counted again. It is read from
//
//	BASE/PARTITION/cuts    {"v":1,"counted":8192,"cuts":[[4096,17],[8192,630]]}
//
// which is put with the rest: up to which offset models were counted, and the cuts that rows at or behind the committed offset need.
// There is none while there are no more models than Most.

// mostModels is the default of KeyedLearnConfig.Most.
const mostModels = 1 << 16

// cut retires the models whose last rows are before an offset, for rows from another offset on.
type cut struct{ at, before int64 }

// crowd are the models of a partition, where they are too many.
type crowd struct {
	cuts    []cut
	counted int64    // up to which offset the models were counted, ever
	passed  int64    // multiple at which the newest record was
	before  int64    // models whose last rows are before this offset are retired
	retire  []string // values of those that are not yet
	noted   *savedCuts
}

func (c *crowd) reset() { *c = crowd{counted: -1, passed: -1} }

// at returns the offset before which models are retired, for a row at another one.
func (c *crowd) at(offset int64) (before int64) {
	for _, cut := range c.cuts {
		if cut.at <= offset {
			before = cut.before
		}
	}
	return before
}

// savedCuts is the record of the checkpoint topic.
type savedCuts struct {
	Version int        `json:"v"`
	Counted int64      `json:"counted"`
	Cuts    [][2]int64 `json:"cuts"`
}

func (k *KeyedLearn) most() int { return cmp.Or(k.Most, mostModels) }

// countEvery is the interval of the offsets at which models are counted.
func (k *KeyedLearn) countEvery() int64 { return countEvery(k.most()) }

func countEvery(most int) int64 { return int64(max(8, most/16)) }

// sameCount returns how many of the first messages have no multiple of countEvery between them.
func (k *KeyedLearn) sameCount(msgs []source.Message) int {
	every := k.countEvery()
	next := msgs[0].Offset - msgs[0].Offset%every + every
	for i := range msgs {
		if msgs[i].Offset >= next {
			return i
		}
	}
	return len(msgs)
}

// count counts the models before a message that is behind a multiple of countEvery, or does what was done there before a restart.
func (k *KeyedLearn) count(i int, offset int64) {
	c := &k.crowd
	at := offset - offset%k.countEvery()
	if at <= c.passed {
		return
	}
	c.passed = at
	before := c.at(at)
	if at > c.counted {
		c.counted = at
		before = k.cutAt(at, i)
	}
	if before > c.before {
		c.before = before
		c.retire = k.lastBefore(before)
	}
}

// cutAt makes a cut before a message of the batch if there are too many models, and returns before which offset models are retired.
func (k *KeyedLearn) cutAt(at int64, i int) (before int64) {
	c := &k.crowd
	before = c.before
	if k.atMost() <= k.most() {
		return before
	}
	var last []int64
	k.eachAlive(func(_ string, row, heard int64) {
		if row >= before && (k.Idle == 0 || !k.over(k.idle.times[i].now, heard)) { // the others are retired already, or will be
			last = append(last, row)
		}
	})
	if len(last) <= k.most() {
		return before
	}
	slices.Sort(last)
	keep := max(1, k.most()-k.most()/8)
	before = last[len(last)-keep]
	c.cuts = append(c.cuts, cut{at, before})
	return before
}

// atMost is at least the number of models, and costs less than counting.
func (k *KeyedLearn) atMost() int {
	n := len(k.States.index) - k.States.gone.n
	if all := n + len(k.models); all <= k.most() { // nearly always, and each put asks
		return all
	}
	for _, m := range k.models {
		if m.fresh {
			n++
		}
	}
	return n
}

// eachAlive gives the models: the offset of the last message with rows of each, and the time of the partition at that row.
func (k *KeyedLearn) eachAlive(do func(value string, row, heard int64)) {
	for value, m := range k.models {
		if m.alive() {
			do(value, m.learnt-1, m.heard)
		}
	}
	for value, s := range k.States.index {
		if k.models[value] == nil && !s.retired {
			do(value, s.learnt-1, s.heard)
		}
	}
}

// lastBefore returns the values of the models whose last rows are before an offset, that of the earliest first.
func (k *KeyedLearn) lastBefore(before int64) []string {
	var all []string
	rows := map[string]int64{}
	k.eachAlive(func(value string, row, _ int64) {
		if row < before {
			all, rows[value] = append(all, value), row
		}
	})
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(rows[a], rows[b]), cmp.Compare(a, b)) })
	return all
}

// retireCrowd retires models that were cut off, more with each batch than its messages can begin.
func (k *KeyedLearn) retireCrowd(ctx context.Context, messages int) error {
	c := &k.crowd
	for n := 0; len(c.retire) > 0 && n < max(mostAtOnce, 2*messages) && k.bytes < savesBytes; c.retire = c.retire[1:] {
		value := c.retire[0]
		learnt, _, alive := k.last(value)
		if !alive || learnt > c.before { // rows have come since
			continue
		}
		if err := k.retireModel(ctx, value); err != nil {
			return err
		}
		n++
	}
	return nil
}

// watchCrowd goes on, after a restart, from what was put.
func (k *KeyedLearn) watchCrowd() {
	c := &k.crowd
	if saved := k.States.cuts; saved != nil {
		c.counted = saved.Counted
		for _, s := range saved.Cuts {
			c.cuts = append(c.cuts, cut{s[0], s[1]})
		}
	}
	if c.before = c.at(k.next); c.before > 0 {
		c.retire = k.lastBefore(c.before)
	}
}

// noteCrowd adds what was counted to what is pending, where it is needed after a restart.
func (k *KeyedLearn) noteCrowd() {
	c := &k.crowd
	for below := k.committable(); len(c.cuts) > 1 && c.cuts[1].at <= below; {
		c.cuts = c.cuts[1:]
	}
	if len(c.cuts) == 0 && k.atMost() <= k.most() {
		return
	}
	now := &savedCuts{Version: 1, Counted: c.counted, Cuts: [][2]int64{}}
	for _, cut := range c.cuts {
		now.Cuts = append(now.Cuts, [2]int64{cut.at, cut.before})
	}
	if was := k.States.cuts; was != nil && was.Counted == now.Counted && slices.Equal(was.Cuts, now.Cuts) {
		return
	}
	c.noted = now
	k.addNote(k.States.note(noteCuts, mustJSON(now)))
}
