// uPlot, which draws the charts of the Lab, in a bundle by itself.

export { default } from "uplot";
