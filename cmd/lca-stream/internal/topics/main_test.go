package topics

import (
	"os"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

func TestMain(m *testing.M) { os.Exit(kafkatest.Tests{M: m}.Run()) }
