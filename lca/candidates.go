package lca

import (
	"cmp"
	"container/heap"
	"slices"
)

// partCandidate is a PoolCandidate with the number of its part.
type partCandidate struct {
	PoolCandidate
	part uint64
}

// poolCandidates are the rows with the smallest identities of all that were offered: a heap with the largest on top. Which they are does not
// depend on the order of the offers, and those of several heaps, offered to one, are those of all rows.
type poolCandidates []partCandidate

func (c poolCandidates) Len() int           { return len(c) }
func (c poolCandidates) Less(i, j int) bool { return c[j].before(&c[i]) }
func (c poolCandidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// before orders rows by their identity, and those of one identity by their place.
func (c *partCandidate) before(o *partCandidate) bool {
	return cmp.Or(cmp.Compare(c.ID, o.ID), cmp.Compare(c.part, o.part), cmp.Compare(c.Row, o.Row)) < 0
}

// Push implements heap.Interface.
func (c *poolCandidates) Push(v any) { *c = append(*c, v.(partCandidate)) }

// Pop implements heap.Interface.
func (c *poolCandidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// full reports whether a row takes the place of another.
func (c poolCandidates) full(most int) bool { return most > 0 && len(c) >= most }

// wants reports whether a row would be kept among most.
func (c poolCandidates) wants(v *partCandidate, most int) bool {
	return len(c) < most || most > 0 && v.before(&c[0])
}

// offer keeps a row if it is wanted. The row must not be changed later.
func (c *poolCandidates) offer(v partCandidate, most int) {
	if !c.wants(&v, most) {
		return
	}
	if len(*c) < most {
		heap.Push(c, v)
		return
	}
	(*c)[0] = v
	heap.Fix(c, 0)
}

// sort brings the rows into the order of the data.
func (c poolCandidates) sort() {
	slices.SortFunc(c, func(a, b partCandidate) int { return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.Row, b.Row)) })
}
