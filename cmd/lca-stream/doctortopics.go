package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
)

// present says which topics exist, and whether those that are read have leaders.
type present struct{ source, all, led bool }

// topics reports what topics check would report.
func (d *doctor) topics(ctx context.Context) (there present) {
	wants, err := d.system.wanted(ctx)
	if err != nil {
		d.warn("topics", "run doctor again", "the models of the snapshot topic: %v", err)
	}
	findings, err := topics.Check(ctx, d.system.cluster, wants)
	if err != nil {
		d.fault("topics", "the user needs DESCRIBE on the topics", "%v", err)
		return there
	}
	there.source, there.all, there.led = findings[0].Partitions > 0, true, true
	for _, f := range findings {
		there.all = there.all && f.Partitions > 0
		there.led = there.led && (len(f.Leaderless) == 0 || f.Path == "transform.topic" || f.Path == "dead_letter.topic" || f.Path == "alarms.topic")
		if f.Denied {
			d.denied = append(d.denied, f.Topic)
			f.Remedy = "grant the rights that are named below"
		}
		if f.OK() {
			d.ok("topics", "%s: %s, %s", f.Topic, plural.Count(f.Partitions, "partition"), f.Policy)
		} else {
			d.fault("topics", f.Remedy, "%s (%s): %s", f.Topic, f.Path, strings.Join(f.Faults, ", "))
		}
		d.warnings(f)
	}
	inner, err := topics.Inner(ctx, d.system.cluster)
	if err != nil {
		d.warn("topics", "run doctor again", "offsets and transactions: %v", err)
	}
	for _, f := range inner {
		d.warnings(f)
	}
	if largest := findings[0].MessageBytes; largest > d.system.config.Source.MaxMessageBytes {
		d.warn("limits", fmt.Sprintf("set source.max_message_bytes to %d", largest), "the source takes messages of %d bytes, this program of %d", largest, d.system.config.Source.MaxMessageBytes)
	}
	return there
}

// warnings reports what may be a choice, and that partitions have no leader, which is none.
func (d *doctor) warnings(f topics.Finding) {
	if len(f.Warnings) == 0 {
		return
	}
	tell := d.warn
	if len(f.Leaderless) > 0 {
		tell = d.fault
	}
	tell("topics", f.Advice, "%s (%s): %s", f.Topic, f.Path, strings.Join(f.Warnings, ", "))
}
