// Package episodes holds `episodes list`, `show` and `accept`: what transforms have told of episodes on alarms.topic, each by its last
// record there, and the command by which a learner takes one for normal.
package episodes

import (
	"context"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
)

// Command is `lca-stream episodes`.
func Command(p *app.Program) *cobra.Command {
	return app.Group(
		&cobra.Command{
			Use:   "episodes",
			Short: "List, show and accept episodes: stretches of series that were unusual",
			Long: `An episode is a stretch of a series that is unusual, from its first row to its last. A transform tells of each
on alarms.topic: when it opens, now and then while it lasts, and when it is over. While one is open, the learner holds
its rows back; accept says that they are normal.`,
		},
		listCommand(p),
		showCommand(p),
		acceptCommand(p),
	)
}

// anID is the form of an id: the model, partition and series, and the offset and row where it began.
var anID = regexp.MustCompile(`(?s)^.+/\d+/.*/\d+\.\d+$`)

// toldOf reads alarms.topic once, up to its present ends. only is the episode that is looked for; "": all.
func toldOf(ctx context.Context, p *app.Program, o *app.Options, only string) (t *told, topic string, err error) {
	c, err := p.Load(o)
	if err != nil {
		return nil, "", err
	}
	if only != "" && !anID.MatchString(only) {
		return nil, "", app.UsageError("%s is no id of an episode, such as default/0/PRESS-07/17956.0: `lca-stream episodes list` shows those that there are", terminal.Name(only))
	}
	if topic = c.Alarms.Topic; topic == "" {
		return nil, "", app.UsageError("alarms.topic is empty, and episodes are told nowhere else: name a topic there, create it with `lca-stream topics init`, and start the transform again")
	}
	s, err := system.Connect(ctx, p, o)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	t = &told{only: only, room: room}
	return t, topic, s.EachCommitted(ctx, topic, t.take)
}
