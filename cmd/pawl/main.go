// Command pawl is the program of this repository: the command line with the workflows of the house.
//
// It never holds more than the list of workflows: what a command does is in package app.
//
// Start reading at main, then app.Main.
package main

import "pawl/app"

func main() {
	app.Main(
		app.Brain(),
		app.NCO(),
		app.VisualDegrees(),
	)
}
