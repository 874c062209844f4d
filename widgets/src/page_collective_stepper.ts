import collectiveStepper from "./collective_stepper.ts";
import { showAll } from "./page.ts";

showAll("collective_stepper", collectiveStepper.render);
