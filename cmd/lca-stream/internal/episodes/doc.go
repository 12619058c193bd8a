// Package episodes holds `episodes list` and `episodes show`: what transforms have told of episodes on alarms.topic, each by its last
// record there.
package episodes
