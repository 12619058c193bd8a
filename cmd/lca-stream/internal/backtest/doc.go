// Package backtest is `lca-stream backtest`: files in order, as the live pair would have them, each row scored with the newest
// model and then learnt.
package backtest
