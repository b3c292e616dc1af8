/* app/train/train.h - weir train: trains a model further; returns the exit code. */
#ifndef WEIR_APP_TRAIN_H
#define WEIR_APP_TRAIN_H

#include "app/options/options.h"

int cmd_train(const struct options *);

#endif
