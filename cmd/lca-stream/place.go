package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/source"
)

// place is a position in a topic as it is written on the command line.
type place struct {
	text    string
	time    time.Time       // zero: none
	offsets map[int32]int64 // of the named partitions; nil: none
}

// wantPlace says what a place may be.
const wantPlace = "earliest, latest, a time such as 2026-01-31, 2026-01-31T12:00:00Z or 2h (ago), or PARTITION=OFFSET[,...]"

// parsePlace parses earliest, latest, a time or PARTITION=OFFSET[,…]. A date is its midnight, UTC. What it refuses is a
// usage error.
func parsePlace(flag, text string, now time.Time) (place, error) {
	p := place{text: text}
	if text == "earliest" || text == "latest" {
		return p, nil
	}
	var err error
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if p.time, err = time.Parse(layout, text); err == nil {
			return p, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		p.time = now.Add(-ago)
		return p, nil
	}
	p.offsets = map[int32]int64{}
	for item := range strings.SplitSeq(text, ",") {
		number, offset, ok := strings.Cut(item, "=")
		id, err1 := strconv.ParseInt(number, 10, 32)
		next, err2 := strconv.ParseInt(offset, 10, 64)
		if !ok || err1 != nil || err2 != nil || id < 0 || next < 0 {
			return p, usageError("%s %s: %q is none of %s", flag, text, item, wantPlace)
		}
		if _, twice := p.offsets[int32(id)]; twice {
			return p, usageError("%s %s: partition %d is named twice", flag, text, id)
		}
		p.offsets[int32(id)] = next
	}
	return p, nil
}

// at returns the offsets of a place. A time before the beginning is the beginning, and one past the end is the end.
func (s *Topics) at(ctx context.Context, parts []source.Partition, p place) (source.Offsets, error) {
	switch {
	case p.offsets != nil:
		offsets := source.Offsets{}
		for id, next := range p.offsets {
			part := source.Partition{Topic: s.config.Source.Topic, ID: id}
			if !slices.Contains(parts, part) {
				return nil, fmt.Errorf("topic %s has no partition %d to read", part.Topic, id)
			}
			offsets[part] = next
		}
		return offsets, nil
	case p.text == "earliest":
		return source.ListOffsets(ctx, s.cluster, parts, source.Earliest)
	}
	last := source.LatestStable
	if s.config.Source.IsolationLevel == config.ReadUncommitted {
		last = source.Latest
	}
	end, err := source.ListOffsets(ctx, s.cluster, parts, last)
	if err != nil || p.time.IsZero() {
		return end, err
	}
	offsets, err := source.ListOffsets(ctx, s.cluster, parts, source.AtTime(p.time))
	for part, next := range offsets { // past the end the broker returns the high watermark, which is behind open transactions
		offsets[part] = min(next, end[part])
	}
	return offsets, err
}
