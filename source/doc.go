// Package source is where rows come from: Kafka topics and files. It says who has read up to where, so that a sink can
// commit that together with what was made of the rows.
//
// Begin with [OpenKafka] for a topic, or with [OpenFiles]. Both are read by Read, until [ErrEnd] if there is an end:
//
//	k, err := source.OpenKafka(ctx, source.KafkaConfig{Cluster: cluster, Start: start, Decoder: decoder})
//	for {
//		batch, err := k.Read(ctx)          // messages, in order within each partition
//		if errors.Is(err, source.ErrEnd) { break }
//		for _, m := range batch.Messages { // m.Record, or m.Err, or neither: a null value
//			…
//		}
//		err = out.Put(ctx, messages, batch.Claim) // package sink: all or nothing, with the offsets
//		batch.Release()                    // its memory serves a later batch
//	}
//
// The connection comes from package kafkaconn, and the decoder from package format, which makes Arrow records of
// untrusted bytes. [Partitions], [ListOffsets] and [Committed] say where a topic begins, ends, and where a group goes
// on. [JoinGroup] divides a topic's partitions among processes. [NewFetcher] reads one partition without decoding it.
//
// Only committed records are read, unless KafkaConfig says otherwise. What all readers of a process hold is bounded by one
// [Memory].
package source
