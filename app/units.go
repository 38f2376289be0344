package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl"
)

var errAmount = errors.New("want a whole number of at least 0; of usd dollars (1.50), of runtime a time (30s, 5m)")

// budgets reads --budget search=8,usd=1.
func budgets(text string) (pawl.Budget, error) {
	if text == "" {
		return nil, nil
	}
	out := pawl.Budget{}
	for part := range strings.SplitSeq(text, ",") {
		meter, amount, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || meter == "" {
			return nil, invalid("--budget: %s is not METER=AMOUNT", shortened(part))
		}
		n, err := units(meter, amount)
		if err != nil {
			return nil, invalid("--budget: %s=%s: %v", meter, amount, err)
		}
		if _, twice := out[meter]; twice {
			return nil, invalid("--budget: %s is given twice", meter)
		}
		out[meter] = n
	}
	return out, nil
}

// metersOf are the meters that a workflow is known to use: those that every run may, its ceilings, and what its nodes cost.
func metersOf(w *pawl.Workflow) []string {
	shape, seen := w.Program().Shape, map[string]bool{pawl.MeterUSD: true, pawl.MeterRuntime: true}
	for meter := range shape.Budget {
		seen[meter] = true
	}
	for _, n := range shape.Nodes {
		for meter := range n.Costs {
			seen[meter] = true
		}
	}
	for _, child := range w.Children() {
		for _, meter := range metersOf(child) {
			seen[meter] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// units reads an amount of a meter in the unit that the meter counts in.
func units(meter, amount string) (int64, error) {
	switch meter {
	case pawl.MeterUSD:
		d, err := strconv.ParseFloat(strings.TrimPrefix(amount, "$"), 64)
		if err != nil || !(d >= 0 && d <= 1e9) {
			return 0, errAmount
		}
		return int64(pawl.Dollars(d)), nil
	case pawl.MeterRuntime:
		d, err := time.ParseDuration(amount)
		if err != nil || d < 0 {
			return 0, errAmount
		}
		return d.Milliseconds(), nil
	}
	n, err := strconv.ParseInt(amount, 10, 64)
	if err != nil || n < 0 {
		return 0, errAmount
	}
	return n, nil
}

// amount writes a number of units of a meter for people.
func amount(meter string, n int64) string {
	switch meter {
	case pawl.MeterUSD:
		return pawl.USD(n).String()
	case pawl.MeterRuntime:
		return took(time.Duration(n) * time.Millisecond)
	}
	return strconv.FormatInt(n, 10)
}

// counters are meters against their caps, on one line.
func counters(ms []pawl.Meter) string {
	var parts []string
	for _, m := range ms {
		text := m.Name + " " + amount(m.Name, m.Used)
		if m.Cap >= 0 {
			text += "/" + amount(m.Name, m.Cap)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}

// took is a duration as people read it.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	parts := []string{}
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.unit; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d%s", n, u.name))
			d -= n * u.unit
		}
	}
	return strings.Join(parts, " ")
}
