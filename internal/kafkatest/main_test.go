package kafkatest_test

import (
	"os"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Tests{M: m}.Run()) }

// TestTestsShareABroker holds that tests have one broker of a kind in common, and each its own embedded one.
func TestTestsShareABroker(t *testing.T) {
	var addrs []string
	for _, name := range []string{"one", "another"} {
		t.Run(name, func(t *testing.T) {
			b := kafkatest.Shared(t, kafkatest.Kafka41)
			b.CreateTopic(t, name, 1, nil)
			produce(t, b.Client(), name, name)
			addrs = append(addrs, b.Addrs()...)
		})
	}
	if len(addrs) != 2 || addrs[0] != addrs[1] {
		t.Errorf("brokers at %v, want one for both", addrs)
	}
	if a, b := kafkatest.Shared(t, kafkatest.Embedded), kafkatest.Start(t, kafkatest.Embedded); a.Addrs()[0] == b.Addrs()[0] {
		t.Error("one embedded broker for two")
	}
}
