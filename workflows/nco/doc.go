// Package nco codes a description of somebody's work to the national classification of occupations, and asks when it cannot.
//
// It may never trust what it gets: what the expander, the index, the analyzer and a model say is evidence, checked before it
// is used. It holds no I/O and no vendor, and never passes a code through a number.
//
// Start reading at Graph, then nodes.go. Expander and Analyzer are the ports, Words and Margins fill them without a model;
// model.go lets one do their part, prompts.go is what it is told. policy.go is what every verdict must obey, Load reads
// catalogues.
package nco
