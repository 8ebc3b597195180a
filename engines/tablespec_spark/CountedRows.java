package io.tablespec.spark;

import java.util.ArrayList;
import java.util.List;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Counts the rows of whole files, which Spark takes from their footers, and then takes the deleted ones off.
 *
 * Only a count of all rows is changed: one over nothing but projections, unions and the filter of deleted rows right above its files.
 */
public final class CountedRows extends Rule {
    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).transformDown(new Counts());
    }

    /** What the rule does to each node of a plan. */
    public static final class Counts extends AbstractPartialFunction {
        public boolean isDefinedAt(Object node) {
            return node instanceof Aggregate && isCount((Aggregate) node);
        }

        public Object applyOrElse(Object node, Function1 otherwise) {
            return isDefinedAt(node) ? counted((Aggregate) node) : otherwise.apply(node);
        }
    }

    private static boolean isCount(Aggregate plan) {
        if (!plan.groupingExpressions().isEmpty() || plan.aggregateExpressions().size() != 1) return false;
        if (!(plan.aggregateExpressions().head() instanceof Alias)) return false;
        Expression told = ((Alias) plan.aggregateExpressions().head()).child();
        if (!(told instanceof AggregateExpression)) return false;
        AggregateExpression asked = (AggregateExpression) told;
        if (asked.isDistinct() || asked.filter().isDefined() || !(asked.aggregateFunction() instanceof Count)) return false;
        scala.collection.immutable.Seq arguments = ((Count) asked.aggregateFunction()).children();
        return arguments.size() == 1 && arguments.head() instanceof Literal && ((Literal) arguments.head()).value() != null;
    }

    private static LogicalPlan counted(Aggregate plan) {
        long[] taken = new long[1];
        LogicalPlan whole = whole(plan.child(), taken);
        if (taken[0] == 0) return plan;
        Alias asked = (Alias) plan.aggregateExpressions().head();
        Alias all = named(asked.child(), asked, NamedExpression$.MODULE$.newExprId());
        Expression left = new Subtract(all.toAttribute(), new Literal(Long.valueOf(taken[0]), asked.dataType()));
        Aggregate counted = new Aggregate(plan.groupingExpressions(), only(all), whole, plan.hint());
        return new Project(only(named(left, asked, asked.exprId())), counted);
    }

    /** A plan without the filters of deleted rows, whose numbers are added up; nobody asks for its columns. */
    private static LogicalPlan whole(LogicalPlan plan, long[] taken) {
        if (plan instanceof Project) {
            return whole(((Project) plan).child(), taken);
        }
        if (plan instanceof Union) {
            List children = new ArrayList();
            for (int i = 0; i < plan.children().size(); i++) {
                children.add(new Project(none(), whole((LogicalPlan) plan.children().apply(i), taken)));
            }
            return new Union(CollectionConverters.asScala(children).toSeq(), false, false);
        }
        if (plan instanceof Filter) {
            Long rows = DeletedRows.taken(((Filter) plan).condition());
            LogicalPlan files = ((Filter) plan).child();
            while (files instanceof Project) {
                files = ((Project) files).child();
            }
            if (rows != null && isOurs(files)) {
                taken[0] += rows.longValue();
                return files;
            }
        }
        return plan;
    }

    /** Whether a plan is nothing but the files of a table. */
    public static boolean isOurs(LogicalPlan files) {
        if (!(files instanceof LogicalRelation) || !(((LogicalRelation) files).relation() instanceof HadoopFsRelation)) return false;
        return ((HadoopFsRelation) ((LogicalRelation) files).relation()).location() instanceof TableFileIndex;
    }

    private static Alias named(Expression expression, Alias like, org.apache.spark.sql.catalyst.expressions.ExprId id) {
        return new Alias(expression, like.name(), id, like.qualifier(), like.explicitMetadata(), like.nonInheritableMetadataKeys());
    }

    private static scala.collection.immutable.Seq only(Object one) {
        List list = new ArrayList();
        list.add(one);
        return CollectionConverters.asScala(list).toSeq();
    }

    private static scala.collection.immutable.Seq none() {
        return CollectionConverters.asScala(new ArrayList()).toSeq();
    }
}
