/* A bidder that calibrates the click probability of its model before it bids: value of a click times probability.

       streamcal map state.json --to c --name calibrated_pctr --out calibrated_pctr.c
       cc -std=c99 -O2 bidder.c calibrated_pctr.c -lm -o bidder
       printf '0.004 2.50\n0.02 0.80\n' | ./bidder

   Each line has the score of the model and the value of a click; the answer is the calibrated probability and the bid.
   The state learns elsewhere. Its map is a file, which is written, compiled and deployed as often as needed. */

#include <math.h>
#include <stdio.h>

double calibrated_pctr(double score);

/* Below this an impression costs more to serve than it brings. */
static const double LEAST_BID = 0.001;

static double bid_for(double probability, double value)
{
    double bid = probability * value;
    return bid >= LEAST_BID ? bid : 0.0;
}

int main(void)
{
    double score, value;
    while (scanf("%lf %lf", &score, &value) == 2) {
        double probability = calibrated_pctr(score);
        if (isnan(probability)) { /* no score between 0 and 1: the model has failed, and nothing is bid */
            puts("nan 0");
            continue;
        }
        printf("%.6f %.6f\n", probability, bid_for(probability, value));
    }
    return 0;
}
