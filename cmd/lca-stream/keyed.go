package main

import (
	"fmt"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
)

// oneModel refuses a configuration with a model for each value in a command that knows only one model for all rows.
func oneModel(c *config.Config, command string) error {
	if !c.Model.By.Keyed() {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("model.by is %s, and this release's %s has one model for all rows: set model.by to none", c.Model.By, command)}
}
