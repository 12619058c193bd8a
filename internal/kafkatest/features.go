package kafkatest

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FinalizeTransactions sets the cluster's feature transaction.version (KIP-890), up or down, and waits until
// a broker says so to new connections.
func (b *Broker) FinalizeTransactions(t testing.TB, level int16) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	const up, safeDown = 1, 2
	u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = "transaction.version", level, up, level < 2
	if level < 2 {
		u.UpgradeType = safeDown
	}
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	res, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err != nil {
		t.Fatalf("kafkatest: transaction.version %d: %v", level, err)
	}
	for _, one := range res.Results {
		if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
			t.Fatalf("kafkatest: transaction.version %d: %v", level, err)
		}
	}
	for offered(ctx, t, c) != level {
		time.Sleep(20 * time.Millisecond)
	}
}

// offered is the level of transaction.version that a broker says is finalized.
func offered(ctx context.Context, t testing.TB, c *kgo.Client) int16 {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kafkatest", "1"
	res, err := req.RequestWith(ctx, c)
	if err != nil {
		t.Fatalf("kafkatest: finalized features: %v", err)
	}
	for _, f := range res.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel
		}
	}
	return 0
}
