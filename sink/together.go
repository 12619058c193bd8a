package sink

import (
	"cmp"
	"context"
	"slices"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/lca-stream/lca-stream/internal/recordbatch"
)

// togetherBytes bounds a request for several partitions: a larger batch gains little from a shared request, and would
// take too long on a slow link.
const togetherBytes = 256 << 10

// together writes the first batch of each partition, with one request per leader. It tries once. What is refused or
// not answered is left to produce, which repeats it with the same sequence numbers.
//
// One request saves more than round trips. A leader asks the coordinator about a partition's first batch in each
// transaction (KIP-890), and keeps only one question at a time for each transactional id: of concurrent requests it
// refuses all but one. Eight concurrent requests took 70 ms, the same eight in turn 22 ms.
func (k *Kafka) together(ctx context.Context, all []*share, unsure []bool) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(k.sideBySide())
	for _, company := range k.companies(ctx, all) {
		g.Go(func() error {
			if err := k.produceTogether(ctx, all, company); err != nil && unanswered(err) {
				for _, i := range company {
					unsure[i] = true
				}
			}
			return nil
		})
	}
	_ = g.Wait() // none of them returns an error
}

// sideBySide returns the number of concurrent Produce requests. In version 2 it is one, because the coordinator, too,
// adds partitions for one leader at a time.
func (k *Kafka) sideBySide() int {
	if k.version == 2 {
		return 1
	}
	return writers
}

// companies returns the shares that go into one request, by index and sorted by topic, two or more for each request.
func (k *Kafka) companies(ctx context.Context, all []*share) (companies [][]int) {
	leaders := k.leaders(ctx, all)
	order := make([]int, 0, len(all))
	for i, s := range all {
		if _, ok := leaders[s.topicPartition]; ok {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := all[a].topicPartition, all[b].topicPartition
		return cmp.Or(cmp.Compare(leaders[x], leaders[y]), cmp.Compare(x.topic, y.topic), cmp.Compare(x.id, y.id))
	})
	var company []int
	bytes := 0
	end := func() {
		if len(company) > 1 {
			companies = append(companies, company)
		}
		company, bytes = nil, 0
	}
	for _, i := range order {
		_, size := fit(all[i].sizes, k.limits.batch(all[i].topic, k.config.BatchBytes))
		if size > togetherBytes {
			continue
		}
		if len(company) > 0 && (bytes+size > togetherBytes || leaders[all[company[0]].topicPartition] != leaders[all[i].topicPartition]) {
			end()
		}
		company = append(company, i)
		bytes += size
	}
	end()
	return companies
}

// leaders returns the leaders of partitions, as far as the transport knows them without a request.
func (k *Kafka) leaders(ctx context.Context, all []*share) map[topicPartition]int {
	var topics []string
	for _, s := range all {
		if !slices.Contains(topics, s.topic) {
			topics = append(topics, s.topic)
		}
	}
	m, err := k.config.Cluster.Client().Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil
	}
	known := make(map[topicPartition]int)
	for _, t := range m.Topics {
		for _, p := range t.Partitions {
			if p.Error == nil && p.Leader.Host != "" {
				known[topicPartition{t.Name, int32(p.ID)}] = p.Leader.ID
			}
		}
	}
	return known
}

// produceTogether writes the first batches of several partitions in one request.
func (k *Kafka) produceTogether(ctx context.Context, all []*share, company []int) error {
	var parts []part
	size := 0
	for _, i := range company {
		s, limit := all[i], k.limits.batch(all[i].topic, k.config.BatchBytes)
		n, most := fit(s.sizes, limit)
		encode, room := k.packer.encoding(s.records[:n], s.topic, limit, most)
		size += room + requestHead
		parts = append(parts, part{to: s.topicPartition, records: s.records[:n], most: most, sequence: *k.next[s.topicPartition], encode: encode})
	}
	req := newProduce(k.version, k.config.Link.spare.take(size), k.config.Cluster.ClientID(), k.config.TransactionalID, k.request, parts,
		recordbatch.Producer{ID: k.producer.id, Epoch: k.producer.epoch, Transactional: true})
	defer k.config.Link.spare.give(req.bytes)
	res, err := req.ask(ctx, k.config.Cluster, k.patience(req.size()))
	if err != nil {
		if tooSlow(err) {
			k.late.Store(true)
		}
		return err
	}
	written := make(map[topicPartition]int64) // base offsets
	for _, t := range res.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode == 0 {
				written[topicPartition{t.Topic, p.Partition}] = p.BaseOffset
			}
		}
	}
	for at, i := range company {
		s := all[i]
		if base, ok := written[s.topicPartition]; ok {
			s.done = len(parts[at].records)
			s.written(0, s.done, base)
			*k.next[s.topicPartition] = recordbatch.NextSequence(parts[at].sequence, s.done)
		}
	}
	return nil
}
