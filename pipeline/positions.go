package pipeline

import (
	"context"

	"github.com/lca-stream/lca-stream/source"
)

// Places is what a cluster knows of places in partitions.
type Places interface {
	// Committed is what a group has committed, with Next -1 where it has nothing.
	Committed(ctx context.Context, group string, parts []source.Partition) (map[source.Partition]source.Position, error)
	// Offsets are those of a place in each partition.
	Offsets(ctx context.Context, parts []source.Partition, at source.At) (source.Offsets, error)
}

// Positions decides where partitions are read from.
type Positions struct {
	Places Places
	Group  string
	Start  source.At // where a partition begins that has no offset yet
}

// Committed are the offsets of the group, with Start where there are none.
func (p *Positions) Committed(ctx context.Context, parts []source.Partition) (source.Offsets, error) {
	found, err := p.Places.Committed(ctx, p.Group, parts)
	if err != nil {
		return nil, err
	}
	offsets := make(source.Offsets, len(found))
	for part, position := range found {
		offsets[part] = position.Next
	}
	return p.Fill(ctx, offsets, parts)
}

// Fill adds Start for the partitions that have no offset yet.
func (p *Positions) Fill(ctx context.Context, offsets source.Offsets, parts []source.Partition) (source.Offsets, error) {
	var fresh []source.Partition
	for _, part := range parts {
		if next, ok := offsets[part]; !ok || next < 0 {
			fresh = append(fresh, part)
		}
	}
	if len(fresh) == 0 {
		return offsets, nil
	}
	start, err := p.Places.Offsets(ctx, fresh, p.Start)
	if err != nil {
		return nil, err
	}
	full := offsets.Clone()
	for part, next := range start {
		full[part] = next
	}
	return full, nil
}
