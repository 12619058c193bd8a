package source_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// TestMain fails if a goroutine of ours outlives the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(kafkatest.Tests{M: m}) }
