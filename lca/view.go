package lca

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca/internal/prop1"
)

// View returns the model with W in other coordinates or components; all else is shared. From one
// aligned model to another only the components change: the rotation O of y = O M^½(x−μ) is kept,
// so that y stays as steady as the aligned coordinates are. A model that is not aligned has no O,
// and its aligned view is the symmetric one.
func (m *Model) View(coords Coordinates, comps Components) (*Model, error) {
	if m.Coordinates == coords && m.Components == comps {
		return m, nil
	}
	if coordinatesNames[coords] == "" || componentsNames[comps] == "" {
		return nil, fmt.Errorf("lca: view: no such coordinates or components: %v, %v", coords, comps)
	}
	v := *m
	v.Coordinates, v.Components = coords, comps
	v.W = whitening(m.parts(), coords, comps)
	if coords != CoordinatesAligned || m.Coordinates != CoordinatesAligned {
		return &v, nil
	}
	rotation, err := prop1.Polar(m.W, whitening(m.parts(), CoordinatesSymmetric, m.Components))
	if err != nil {
		return nil, err
	}
	var w mat.Dense
	w.Mul(rotation, v.W)
	v.W = &w
	return &v, nil
}
