package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Brokers do not tell their release, but what they speak: TxnOffsetCommit 5 came with Kafka 4.0, and Fetch 17 with 3.9.
const (
	fetchOf39     = 17
	txnOffsetOf40 = 5
)

// lateOffsets names the brokers that may show the offsets of aborted transactions as committed, and says what that costs.
func (d *doctor) lateOffsets(ctx context.Context) {
	var before, perhaps []string
	all, err := d.system.cluster.Offers(ctx)
	if err != nil {
		d.warn("offsets", "run doctor again", "it is not known what the brokers speak: %v", err)
		return
	}
	for _, b := range all {
		switch name := fmt.Sprintf("%d (%s:%d)", b.ID, b.Host, b.Port); {
		case b.Offer.Newest(int16(kmsg.TxnOffsetCommit)) >= txnOffsetOf40:
		case b.Offer.Newest(int16(kmsg.Fetch)) >= fetchOf39:
			perhaps = append(perhaps, name)
		default:
			before = append(before, name)
		}
	}
	const costs = "nothing is lost or repeated by it: a take-over reads back the end of its outputs, which is two records as a rule, and goes on there"
	switch {
	case len(before) > 0:
		d.warn("offsets", costs+". Kafka 3.9.1 and 4.0 have the remedy", "brokers %s speak as Kafka before 3.9 does, which may show the offsets of an aborted transaction as committed (KAFKA-17507)",
			strings.Join(append(before, perhaps...), ", "))
	case len(perhaps) > 0:
		d.ok("offsets", "brokers %s speak as Kafka 3.9 does; if they are of 3.9.0, they may show the offsets of an aborted transaction as committed (KAFKA-17507): %s", strings.Join(perhaps, ", "), costs)
	default:
		d.ok("offsets", "the brokers show those of committed transactions alone")
	}
}
