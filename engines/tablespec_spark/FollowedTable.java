package io.tablespec.spark;

import java.util.function.Supplier;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.runtime.AbstractFunction1;

/** A table function without arguments whose plan is made anew for each query. */
public final class FollowedTable extends AbstractFunction1 {
    private final Supplier plan;

    public FollowedTable(Supplier plan) {
        this.plan = plan;
    }

    public Object apply(Object arguments) {
        Object made = plan.get();
        if (made instanceof String) {
            throw new IllegalArgumentException((String) made);
        }
        return made;
    }
}
