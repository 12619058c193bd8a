// Package configs holds the example configurations of this directory, so that the program can print them:
//
//	text, err := configs.Files.ReadFile("anomaly-scores.yaml")
package configs

import "embed"

// Files are the example configurations, NAME.yaml each.
//
//go:embed *.yaml
var Files embed.FS
