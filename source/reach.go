package source

import (
	"context"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// reachWait bounds one try to reach a broker. A request of the work itself may take much longer, and an address
// behind a firewall would keep it silent for as long.
const reachWait = 4 * time.Second

// Reach waits until any broker answers. The first failed try is logged at once, and each is passed to failed; after
// limit the last error is returned. Credentials that a broker refuses end it at once.
func Reach(ctx context.Context, c *kafkaconn.Cluster, limit time.Duration, failed func(error)) error {
	r := newRetry(c, limit, "connect to "+strings.Join(c.Brokers(), ", "))
	r.hangUps, r.quiet, r.started = hangUpGrace, 0, time.Now()
	_, err := retrying(ctx, r, func(ctx context.Context) (struct{}, error) {
		one, cancel := context.WithTimeout(ctx, reachWait)
		defer cancel()
		err := c.Ping(one)
		if err != nil {
			failed(c.Explain(err))
		}
		return struct{}{}, err
	})
	return err
}
