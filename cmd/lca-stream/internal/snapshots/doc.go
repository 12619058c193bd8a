// Package snapshots holds the commands of published models, on their topic or in files: list, show (with a picture), diff,
// export and import.
package snapshots
