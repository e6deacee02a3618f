// Calibration maps of streamcal, format 1 (docs/map_format.md), with the standard library alone: copy this file.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
)

type steps struct{ Cuts, Values []float64 }

type interval struct{ Lower, Upper steps }

type scale struct {
	Kind            string
	Lo, Hi          float64
	Knots, Ranks    []float64
	Decreasing      bool
	least, greatest float64 // of the scores it accepts
}

// Map is an immutable function from a score to a probability.
type Map struct {
	Format                                       int `json:"streamcal_map"`
	Kind, Point                                  string
	Scale                                        scale
	Slope, Offset, A, B, C, Least, Greatest      float64
	Weights, Slopes, Offsets, Coefficients, Cuts []float64
	Knots, Values, Rises, Falls                  []float64
	LogOdds                                      []float64 `json:"log_odds"`
	Lower, Upper                                 steps
	Folds                                        []interval
	Spots                                        struct{ First, Last, Values []float64 }
}

// place is the coordinate of a score, scaled to [0, 1] too, and the coordinates of the scores of all folds.
type place struct {
	x, u float64
	all  []float64
}

var kinds = map[string]func(m *Map, at place) float64{
	"identity":           func(m *Map, at place) float64 { return m.identity(at) },
	"sigmoid":            func(m *Map, at place) float64 { return sigmoid(m.Slope*at.x + m.Offset) },
	"sigmoids":           func(m *Map, at place) float64 { return m.sigmoids(at.x) },
	"beta":               func(m *Map, at place) float64 { return m.beta(at) },
	"bernstein":          func(m *Map, at place) float64 { return clamp(bernstein(m.Coefficients, at.u), 0, 1) },
	"bernstein-logistic": func(m *Map, at place) float64 { return sigmoid(bernstein(m.Coefficients, at.u)) },
	"chebyshev":          func(m *Map, at place) float64 { return clamp(chebyshev(m.Coefficients, at.u), 0, 1) },
	"steps":              func(m *Map, at place) float64 { return steps{m.Cuts, m.Values}.at(at.x) },
	"lines":              func(m *Map, at place) float64 { return lines(m.Knots, m.Values, at.x) },
	"log-odds-lines":     func(m *Map, at place) float64 { return sigmoid(lines(m.Knots, m.LogOdds, at.x)) },
	"cubics":             func(m *Map, at place) float64 { return m.cubics(at.x) },
	"interval":           func(m *Map, at place) float64 { return m.intervals([]interval{{m.Lower, m.Upper}}, at) },
	"cross-interval":     func(m *Map, at place) float64 { return m.intervals(m.Folds, at) },
}

var points = []string{"log-minimax", "brier-minimax", "self-consistent", "score-prior"}

// New reads a map.
func New(text []byte) (*Map, error) {
	// a bound of null leaves the infinity
	m := &Map{Scale: scale{Lo: math.Inf(-1), Hi: math.Inf(1), least: -math.MaxFloat64, greatest: math.MaxFloat64}}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.Format != 1 || kinds[m.Kind] == nil || m.Point != "" && !slices.Contains(points, m.Point) {
		return nil, fmt.Errorf("not a map of format 1: format %d, kind %q, point %q", m.Format, m.Kind, m.Point)
	}
	switch m.Scale.Kind {
	case "probability", "empirical-cdf":
		m.Scale.Lo, m.Scale.Hi = 0, 1
	case "logit", "interval":
	default:
		return nil, fmt.Errorf("unknown kind of scale %q", m.Scale.Kind)
	}
	if m.Scale.Kind == "probability" || m.Scale.Kind == "logit" {
		m.Scale.least, m.Scale.greatest = 0, 1
	}
	return m, nil
}

// At returns the probability of one score, or of one score a fold; NaN for a score outside the domain of the scale.
func (m *Map) At(scores ...float64) float64 {
	all := make([]float64, len(scores))
	for k, s := range scores {
		if !(s >= m.Scale.least && s <= m.Scale.greatest) {
			return math.NaN()
		}
		if m.Scale.Decreasing {
			s = m.Scale.least + m.Scale.greatest - s
		}
		if i := count(m.Spots.First, s) - 1; k == 0 && i >= 0 && s <= m.Spots.Last[i] {
			return m.Spots.Values[i]
		}
		switch m.Scale.Kind {
		case "logit":
			s = logit(s)
		case "empirical-cdf":
			s = lines(m.Scale.Knots, m.Scale.Ranks, s)
		}
		all[k] = clamp(s, m.Scale.Lo, m.Scale.Hi)
	}
	return kinds[m.Kind](m, place{all[0], (all[0] - m.Scale.Lo) / (m.Scale.Hi - m.Scale.Lo), all})
}

func clamp(x, lo, hi float64) float64 { return min(max(x, lo), hi) }

func logit(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

func sigmoid(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// count returns the number of cuts that are at most x.
func count(cuts []float64, x float64) int {
	return sort.Search(len(cuts), func(i int) bool { return cuts[i] > x })
}

func (s steps) at(x float64) float64 { return s.Values[count(s.Cuts, x)] }

// between returns the knot to the left of x and the share of the way to the next; the end knot and 0 outside.
func between(knots []float64, x float64) (int, float64) {
	i := count(knots, x) - 1
	if i < 0 || i == len(knots)-1 {
		return max(i, 0), 0
	}
	half := 1.0
	if math.IsInf(knots[i+1]-knots[i], 0) { // the distance of two knots may overflow
		half = 0.5
	}
	return i, (half*x - half*knots[i]) / (half*knots[i+1] - half*knots[i])
}

func lines(knots, values []float64, x float64) float64 {
	i, t := between(knots, x)
	if t == 0 {
		return values[i]
	}
	return values[i] + t*(values[i+1]-values[i])
}

func (m *Map) cubics(x float64) float64 {
	i, t := between(m.Knots, x)
	if t == 0 {
		return m.Values[i]
	}
	low, high := m.Values[i], m.Values[i+1]
	bend := t * (1 - t) * (m.Rises[i]*(1-t) - m.Falls[i]*t)
	return clamp(low+(high-low)*t*t*(3-2*t)+bend, low, high)
}

func (m *Map) identity(at place) float64 {
	if m.Scale.Kind == "logit" || math.IsInf(m.Scale.Hi-m.Scale.Lo, 0) {
		return sigmoid(at.x)
	}
	return at.u
}

func (m *Map) sigmoids(x float64) float64 {
	p := 0.0
	for k, w := range m.Weights {
		p += w * sigmoid(m.Slopes[k]*x+m.Offsets[k])
	}
	return min(p, 1)
}

func (m *Map) beta(at place) float64 {
	z := at.x
	if m.Scale.Kind != "logit" {
		if !math.IsInf(m.Scale.Hi-m.Scale.Lo, 0) {
			z = logit(at.u)
		}
		z = clamp(z, -16, 16)
	}
	tail := math.Log1p(math.Exp(-math.Abs(z)))
	return sigmoid(m.A*(min(z, 0)-tail) + m.B*(max(z, 0)+tail) + m.C)
}

// bernstein is de Casteljau's algorithm.
func bernstein(coefficients []float64, u float64) float64 {
	row := slices.Clone(coefficients)
	for n := len(row) - 1; n > 0; n-- {
		for i := range n {
			row[i] = (1-u)*row[i] + u*row[i+1]
		}
	}
	return row[0]
}

// chebyshev is Reinsch's recurrence from the nearer end.
func chebyshev(coefficients []float64, u float64) float64 {
	e, total, value, sign := min(u, 1-u), 0.0, 1.0, 1.0
	step := -2 * e
	for _, c := range coefficients {
		total += sign * c * value
		value += step
		step -= 4 * e * value
		sign *= math.Copysign(1, u-0.5)
	}
	return total
}

func (f interval) observed() bool {
	return len(f.Lower.Cuts)+len(f.Upper.Cuts) > 0 || f.Lower.Values[0] > 0 || f.Upper.Values[0] < 1
}

// intervals merges the pairs of the folds that have observations, or of all if none has any.
func (m *Map) intervals(folds []interval, at place) float64 {
	any := slices.ContainsFunc(folds, interval.observed)
	var k, logHigh, logRest, brier, low, high float64
	for i, f := range folds {
		if f.observed() || !any {
			p, q := f.Lower.at(at.all[i%len(at.all)]), f.Upper.at(at.all[i%len(at.all)])
			k, low, high = k+1, low+p, high+q
			logHigh, logRest = logHigh+math.Log(q), logRest+math.Log(1-p)
			brier += q + 0.5*(p*p-q*q)
		}
	}
	low, high = low/k, high/k
	switch m.Point {
	case "log-minimax":
		return 1 / (1 + math.Exp((logRest-logHigh)/k))
	case "brier-minimax":
		return brier / k
	case "score-prior":
		middle := clamp(clamp(at.x, m.Least, m.Greatest), low, high)
		rarer, width := max(min(middle, 1-middle), 1e-300), 0.25*(high-low)
		return (low*rarer + width*middle) / ((1-high+low)*rarer + width)
	}
	if 1-high+low == 0 {
		return 0.5
	}
	return low / (1 - high + low)
}
